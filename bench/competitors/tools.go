package competitors

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
	"github.com/mooncake-go/mooncake/core/bench/iperf3"
)

// toolLimit bounds one run of a program that measures by itself.
const toolLimit = 15 * time.Minute

// output runs a program to its end and decodes the JSON that it writes.
// The first result is the processor time that it took.
func (s *Scope) output(ctx context.Context, name string, into any, program string, args ...string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, toolLimit)
	defer cancel()
	var out bytes.Buffer
	spec := s.spec(name, -1, nil, program, args)
	spec.Stdout = &out
	p, err := cluster.Start(spec)
	if err != nil {
		return 0, err
	}
	code, err := p.Wait(ctx)
	if err != nil {
		stop(p)
		return 0, err
	}
	if code != 0 {
		return 0, fmt.Errorf("%s ended with exit code %d: %s", name, code, strings.ReplaceAll(strings.TrimSpace(p.Tail()), "\n", "; "))
	}
	if err := json.Unmarshal(out.Bytes(), into); err != nil {
		return 0, fmt.Errorf("%s wrote no JSON: %w", name, err)
	}
	return p.CPUTime()
}

// Mooncake runs a command of this project that measures, with -o json, and returns the processor time that it took.
func (s *Scope) Mooncake(ctx context.Context, into any, args ...string) (time.Duration, error) {
	return s.output(ctx, "mooncake "+args[0], into, filepath.Join(s.env.Programs, "mooncake"), append(args, "-o", "json")...)
}

// FioName names it in results.
const FioName = "fio"

// fioBytes is the size of the file that fio writes or reads.
const fioBytes = 256 << 20

// Fio returns the GB/s at which a file in a folder is written (or read) by blocks of 1 MiB, past the
// page cache where the file system allows it, and the processor seconds for each GB.
func (s *Scope) Fio(ctx context.Context, folder string, write bool) (speed, cpu float64, err error) {
	program, err := installed(FioName)
	if err != nil {
		return 0, 0, err
	}
	kind := "read"
	if write {
		kind = "write"
	}
	var doc struct {
		Jobs []struct {
			Read struct {
				BWBytes float64 `json:"bw_bytes"`
			}
			Write struct {
				BWBytes float64 `json:"bw_bytes"`
			}
		}
	}
	took, err := s.output(ctx, FioName, &doc, program, "--name=bench", "--directory="+folder, "--rw="+kind, "--bs=1M",
		"--size="+strconv.Itoa(fioBytes), "--ioengine=psync", "--direct=1", "--end_fsync=1", "--output-format=json")
	if err != nil {
		return 0, 0, err
	}
	if len(doc.Jobs) == 0 {
		return 0, 0, errors.New("fio's answer has no job")
	}
	speed = doc.Jobs[0].Read.BWBytes
	if write {
		speed = doc.Jobs[0].Write.BWBytes
	}
	return speed / 1e9, took.Seconds() / fioBytes * 1e9, nil
}

// LoopbackBytes returns how many bytes the loopback interface of this machine has carried: what
// goes over TCP between two processes of it is counted there, what goes through memory is not.
func LoopbackBytes() (uint64, error) {
	text, err := os.ReadFile("/proc/net/dev")
	if err != nil {
		return 0, err
	}
	return loopbackBytes(string(text))
}

func loopbackBytes(text string) (uint64, error) {
	for line := range strings.Lines(text) {
		name, counts, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name != "lo" {
			continue
		}
		var n uint64
		if _, err := fmt.Sscan(counts, &n); err != nil {
			return 0, fmt.Errorf("/proc/net/dev: %q: %w", line, err)
		}
		return n, nil
	}
	return 0, errors.New("/proc/net/dev has no interface lo")
}

// installed finds a program of the distribution.
func installed(program string) (string, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return "", fmt.Errorf("%s is not installed; run: make bench-peers-setup, or install the package of that name", program)
	}
	return path, nil
}

// IperfName names iperf3 in results.
const IperfName = "iperf3"

// Iperf starts an iperf3 server, the limit of what TCP moves over loopback.
func (s *Scope) Iperf() (*iperf3.Server, error) {
	if _, err := installed(IperfName); err != nil {
		return nil, err
	}
	server, err := iperf3.Start(s.env.Log)
	if err != nil {
		return nil, err
	}
	s.ends = append(s.ends, server.Close)
	return server, nil
}

package peers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
)

// toolLimit bounds one run of a program that measures by itself.
const toolLimit = 15 * time.Minute

// output runs a program to its end and decodes the JSON that it writes.
func (s *Scope) output(ctx context.Context, name string, into any, program string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, toolLimit)
	defer cancel()
	var out bytes.Buffer
	spec := s.spec(name, -1, nil, program, args)
	spec.Stdout = &out
	p, err := cluster.Start(spec)
	if err != nil {
		return err
	}
	code, err := p.Wait(ctx)
	if err != nil {
		stop(p)
		return err
	}
	if code != 0 {
		return fmt.Errorf("%s ended with exit code %d: %s", name, code, strings.ReplaceAll(strings.TrimSpace(p.Tail()), "\n", "; "))
	}
	if err := json.Unmarshal(out.Bytes(), into); err != nil {
		return fmt.Errorf("%s wrote no JSON: %w", name, err)
	}
	return nil
}

// Mooncake runs a command of this project that measures, with -o json.
func (s *Scope) Mooncake(ctx context.Context, into any, args ...string) error {
	return s.output(ctx, "mooncake "+args[0], into, filepath.Join(s.env.Programs, "mooncake"), append(args, "-o", "json")...)
}

// FioName names it in results.
const FioName = "fio"

// Fio returns the GB/s at which a file in a folder is written (or read) by blocks of
// 1 MiB, past the page cache where the file system allows it.
func (s *Scope) Fio(ctx context.Context, folder string, write bool) (float64, error) {
	program, err := installed(FioName)
	if err != nil {
		return 0, err
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
	err = s.output(ctx, FioName, &doc, program, "--name=bench", "--directory="+folder, "--rw="+kind, "--bs=1M", "--size=256M",
		"--ioengine=psync", "--direct=1", "--end_fsync=1", "--output-format=json")
	if err != nil {
		return 0, err
	}
	if len(doc.Jobs) == 0 {
		return 0, errors.New("fio's answer has no job")
	}
	speed := doc.Jobs[0].Read.BWBytes
	if write {
		speed = doc.Jobs[0].Write.BWBytes
	}
	return speed / 1e9, nil
}

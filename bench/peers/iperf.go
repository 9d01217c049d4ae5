package peers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
)

// IperfName names it in results.
const IperfName = "iperf3"

// Iperf is an iperf3 server, the limit of what TCP moves over loopback.
type Iperf struct {
	program string
	port    int
}

// maxBlock is the largest block that iperf3 takes.
const maxBlock = 1 << 20

// Iperf starts the server.
func (s *Scope) Iperf(ctx context.Context) (*Iperf, error) {
	program, err := installed(IperfName)
	if err != nil {
		return nil, err
	}
	ports, err := cluster.FreePorts(1)
	if err != nil {
		return nil, err
	}
	p, err := s.start(IperfName, -1, nil, program, "-s", "-B", "127.0.0.1", "-p", strconv.Itoa(ports[0]))
	if err != nil {
		return nil, err
	}
	// It may take a look for a client that says nothing: ready is whoever wrote that it listens.
	return &Iperf{program: program, port: ports[0]}, until(ctx, p, "it does not listen", func() bool { return bound(ports[0]) })
}

// Measure moves so many bytes over each of the streams in blocks of a size, and returns GB/s.
// get is for the direction of reads.
func (p *Iperf) Measure(ctx context.Context, streams, block, each int, get bool) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	args := []string{
		"-c", "127.0.0.1", "-p", strconv.Itoa(p.port), "-P", strconv.Itoa(streams), "-l", strconv.Itoa(min(block, maxBlock)),
		"-n", strconv.Itoa(each), "-J",
	}
	if get {
		args = append(args, "-R")
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, p.program, args...)
	cmd.Stdout = &out
	runErr := cmd.Run()
	return iperfSpeed(out.Bytes(), runErr)
}

// iperfSpeed reads iperf3's JSON.
func iperfSpeed(text []byte, runErr error) (float64, error) {
	var doc struct {
		Error string `json:"error"`
		End   struct {
			Received struct {
				BitsPerSecond float64 `json:"bits_per_second"`
			} `json:"sum_received"`
		} `json:"end"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return 0, errors.Join(runErr, fmt.Errorf("iperf3's answer is no JSON: %w", err))
	}
	switch {
	case doc.Error != "":
		return 0, errors.New(strings.TrimSpace(doc.Error))
	case runErr != nil:
		return 0, runErr
	case doc.End.Received.BitsPerSecond <= 0:
		return 0, errors.New("iperf3's answer has no speed")
	}
	return doc.End.Received.BitsPerSecond / 8e9, nil
}

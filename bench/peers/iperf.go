package peers

import (
	"bytes"
	"context"
	"os/exec"
	"strconv"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
	"github.com/mooncake-go/mooncake/core/bench/iperf3"
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
	return iperf3.Speed(out.Bytes(), runErr)
}

package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"strconv"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
	"github.com/mooncake-go/mooncake/core/bench/iperf3"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// ErrNoIperf says that iperf3 is not installed.
var ErrNoIperf = errors.New("iperf3 is not installed")

// iperfStart bounds how long the server may take to listen.
const iperfStart = 5 * time.Second

// Iperf measures plain connections between two processes over loopback with iperf3. It is
// for one goroutine; Close it.
type Iperf struct {
	program, port string
	streams       int
	server        *cluster.Proc
	began         time.Time
	answered      bool
}

// NewIperf starts the server. ErrNoIperf where the program is missing.
func NewIperf(streams int) (*Iperf, error) {
	program, err := exec.LookPath("iperf3")
	if err != nil {
		return nil, ErrNoIperf
	}
	ports, err := cluster.FreePorts(1)
	if err != nil {
		return nil, err
	}
	p := &Iperf{program: program, port: strconv.Itoa(ports[0]), streams: streams, began: time.Now()}
	p.server, err = cluster.Start(cluster.Spec{Name: "iperf3 server", Program: program, Args: []string{"-s", "-B", "127.0.0.1", "-p", p.port}})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Close ends the server.
func (p *Iperf) Close() { p.server.Kill() }

// Measure runs once for d, rounded up to whole seconds: from this side for writes, to it
// for reads.
func (p *Iperf) Measure(ctx context.Context, kind transport.OpKind, d time.Duration) (Limit, error) {
	seconds := max(1, int(math.Ceil(d.Seconds())))
	args := []string{"-c", "127.0.0.1", "-p", p.port, "-P", strconv.Itoa(p.streams), "-t", strconv.Itoa(seconds), "-J"}
	if kind == transport.Read {
		args = append(args, "-R")
	}
	for {
		speed, err := iperf(ctx, p.program, args, time.Duration(seconds)*time.Second+10*time.Second)
		if err == nil {
			p.answered = true
			return Limit{Name: fmt.Sprintf("iperf3 over loopback, %d streams", p.streams), GBps: speed}, nil
		}
		if ctx.Err() != nil || p.answered || time.Since(p.began) > iperfStart {
			return Limit{}, fmt.Errorf("iperf3: %w", err)
		}
		select { // It does not listen yet.
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// iperf runs the client once and returns the speed at which bytes arrived, in GB/s.
func iperf(ctx context.Context, program string, args []string, limit time.Duration) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	var out bytes.Buffer
	cmd.Stdout = &out
	runErr := cmd.Run()
	return iperf3.Speed(out.Bytes(), runErr)
}

package competitors

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
)

const (
	// startLimit bounds how long a process may take until it is of use.
	startLimit = 60 * time.Second
	// stopLimit bounds how long it may take to end before it is killed.
	stopLimit = 5 * time.Second
	// jobLimit bounds one piece of work of a driver.
	jobLimit = 5 * time.Minute
)

// Scope is a set of processes that end together. It is for one goroutine.
type Scope struct {
	env  *Env
	ends []func()
}

// Close ends all of them, the last one first.
func (s *Scope) Close() {
	for _, end := range slices.Backward(s.ends) {
		end()
	}
	s.ends = nil
}

// start runs a program until the scope is closed. cpu is the only processor that it may use,
// below 0 for any.
func (s *Scope) start(name string, cpu int, env []string, program string, args ...string) (*cluster.Proc, error) {
	spec := s.spec(name, cpu, env, program, args)
	p, err := cluster.Start(spec)
	if err != nil {
		return nil, err
	}
	s.ends = append(s.ends, func() { stop(p) })
	return p, nil
}

func (s *Scope) spec(name string, cpu int, env []string, program string, args []string) cluster.Spec {
	if cpu >= 0 {
		program, args = "taskset", append([]string{"-c", strconv.Itoa(cpu), program}, args...)
	}
	return cluster.Spec{Name: name, Program: program, Args: args, Env: slices.Concat(s.env.environ, env), Log: s.env.Log}
}

func stop(p *cluster.Proc) {
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	if p.Stop(ctx) != nil {
		p.Kill()
	}
}

// driver starts a program that does jobs.
func (s *Scope) driver(ctx context.Context, name string, cpu int, env []string, program string, args ...string) (*Driver, error) {
	d, err := startDriver(ctx, s.spec(name, cpu, env, program, args), startLimit)
	if err != nil {
		return nil, err
	}
	s.ends = append(s.ends, d.close)
	return d, nil
}

// until waits until ready, the end of the process or that of ctx; missing says what is awaited.
func until(ctx context.Context, p *cluster.Proc, missing string, ready func() bool) error {
	err := cluster.Poll(p, startLimit, func() error {
		select {
		case <-ctx.Done():
			return nil
		default:
		}
		if !ready() {
			return errors.New(missing)
		}
		return nil
	})
	return errors.Join(err, ctx.Err())
}

// listening waits until somebody accepts connections on a port of this machine.
func listening(ctx context.Context, p *cluster.Proc, port int) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	var d net.Dialer
	for {
		conn, err := d.DialContext(ctx, "tcp", local(port))
		if err == nil {
			return conn.Close()
		}
		select {
		case <-p.Done():
			return fmt.Errorf("%s ended before it listened: %s", p.Name, lastLine(p.Tail()))
		case <-ctx.Done():
			return fmt.Errorf("%s does not listen on port %d: %w", p.Name, port, errors.Join(ctx.Err(), err))
		case <-time.After(time.Millisecond):
		}
	}
}

func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// rss returns the bytes of memory that a process has resident.
func rss(pid int) (uint64, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "statm"))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0, fmt.Errorf("/proc/%d/statm has %d fields", pid, len(fields))
	}
	pages, err := strconv.ParseUint(fields[1], 10, 64)
	return pages * uint64(os.Getpagesize()), err
}

// Scope returns a set of processes that can end before s does, and ends with it.
func (s *Scope) Scope() *Scope {
	inner := s.env.Scope()
	s.ends = append(s.ends, inner.Close)
	return inner
}

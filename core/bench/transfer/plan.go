package transfer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
	"github.com/mooncake-go/mooncake/core/bench/iperf3"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// LocalTransport is the name under which copies within this process are measured. It is
// no plugin.
const LocalTransport = "local"

// Plan is a sweep over transports and numbers of connections.
type Plan struct {
	// Transports are plugin names, or LocalTransport.
	Transports []string
	// Streams are the numbers of connections to measure tcp with.
	Streams []int
	Loads   []Load
	// Segment is a running target; empty starts one for each transport.
	Segment string
	// Buffer is the memory of either side, in bytes.
	Buffer uint64

	Rounds        int
	Round, WarmUp time.Duration
	Verify        bool
	// Async is Session.Async.
	Async bool
	// Limits says whether to measure what the machine gives without the engine: memcpy for
	// LocalTransport, iperf3 for tcp to a target of its own.
	Limits bool

	// Open starts an engine over a transport; streams is 0 for one that has no connections.
	// The second result ends it.
	Open func(ctx context.Context, transport string, streams int) (Node, func(context.Context) error, error)
	// Target describes the process of a target that prints Announce's line.
	Target func(transport string) cluster.Spec
	// Each is called with every row as it comes, Note with what is to be said besides.
	Each func(Row)
	Note func(string)
}

// Run measures everything. What was measured comes back with the first error, which ends
// it; Report.Interrupted says that it was the context's end.
func (p Plan) Run(ctx context.Context) (Report, error) {
	rep := Report{
		Target: p.Segment, Rounds: p.Rounds, RoundSeconds: p.Round.Seconds(), WarmUpSeconds: p.WarmUp.Seconds(), CheckConsistency: p.Verify,
	}
	err := p.transports(ctx, &rep)
	rep.Interrupted = ctx.Err() != nil
	return rep, err
}

func (p Plan) transports(ctx context.Context, rep *Report) error {
	for _, name := range p.Transports {
		streams := []int{0}
		if name == "tcp" && len(p.Streams) > 0 {
			streams = p.Streams
		}
		for _, n := range streams {
			rows, err := p.one(ctx, name, n)
			rep.Results = append(rep.Results, rows...)
			if err != nil {
				return fmt.Errorf("transport %s: %w", name, err)
			}
		}
	}
	return nil
}

// one measures one transport with one number of connections.
func (p Plan) one(ctx context.Context, name string, streams int) (rows []Row, err error) {
	node, stop, err := p.Open(ctx, name, streams)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop(context.WithoutCancel(ctx))) }()
	s, done, err := p.Session(ctx, node, name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, done()) }()
	limit, end, err := p.limit(s, name, streams)
	if err != nil {
		return nil, err
	}
	defer end()
	return s.Sweep(ctx, p.Loads, SweepOptions{
		Transport: name, Streams: streams, Rounds: p.Rounds, Round: p.Round, WarmUp: p.WarmUp, Verify: p.Verify,
		Limit: limit, Each: p.Each,
	})
}

// Session connects to the target, which it starts where none is given. done ends both.
func (p Plan) Session(ctx context.Context, node Node, name string) (s *Session, done func() error, err error) {
	if s, done, err = p.connect(ctx, node, name); err == nil {
		s.Async = p.Async
	}
	return s, done, err
}

func (p Plan) connect(ctx context.Context, node Node, name string) (s *Session, done func() error, err error) {
	if name == LocalTransport {
		s, err := Local(ctx, node, p.Buffer)
		return s, func() error { return s.Close(ctx) }, err
	}
	segment, end := p.Segment, func() error { return nil }
	if segment == "" {
		t, err := Spawn(ctx, p.Target(name))
		if err != nil {
			return nil, nil, err
		}
		segment, end = t.Segment, func() error { return t.Close(ctx) }
	}
	if s, err = Connect(ctx, node, segment, p.Buffer); err != nil {
		return nil, nil, errors.Join(err, end())
	}
	return s, func() error { return errors.Join(s.Close(ctx), end()) }, nil
}

// limit returns what measures the limit of a transport once, nil for none, and what ends it.
func (p Plan) limit(s *Session, name string, streams int) (measure func(context.Context, Load) (Limit, error), done func(), err error) {
	done = func() {}
	switch {
	case !p.Limits:
	case name == LocalTransport:
		measure = func(ctx context.Context, l Load) (Limit, error) { return s.MemcpyLimit(ctx, l, p.Round) }
	case name == "tcp" && p.Segment == "":
		server, err := iperf3.Start(nil)
		if errors.Is(err, iperf3.ErrNotInstalled) {
			p.Note("iperf3 is not installed: there is no limit to compare tcp with")
			return nil, done, nil
		}
		if err != nil {
			return nil, done, err
		}
		streams = max(1, streams)
		seconds := max(1, int(math.Ceil(p.Round.Seconds()))) // iperf3 takes no fractions.
		measure = func(ctx context.Context, l Load) (Limit, error) {
			ctx, cancel := context.WithTimeout(ctx, time.Duration(seconds)*time.Second+10*time.Second)
			defer cancel()
			r, err := server.Measure(ctx, streams, l.Kind == transport.Read, "-t", strconv.Itoa(seconds))
			if err != nil {
				return Limit{}, fmt.Errorf("iperf3: %w", err)
			}
			return Limit{Name: fmt.Sprintf("iperf3 over loopback, %d streams", streams), GBps: r.GBps}, nil
		}
		done = server.Close
	}
	return measure, done, nil
}

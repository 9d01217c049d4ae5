package micro

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/content"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

const (
	deepest   = 32 // operations in flight at most
	largest   = 1 << 20
	areaBytes = deepest * largest
	opTimeout = 30 * time.Second
	// roundTimeout ends a round that hangs; RoundTime is far below it.
	roundTimeout = 5 * time.Minute
	benchRegion  = transport.RegionID(1)
)

// Transport measures two instances of a transport in this process: reads and writes of 64
// KiB and 1 MiB, one at a time next to one plain TCP connection over loopback that carries
// pages of that size as a stream, and 32 at a time next to four of them. Before it measures it checks that the bytes
// arrive. cfg is the transport's configuration, nil for its default.
func Transport(f transport.Factory, cfg plugin.Config) Suite {
	return Suite{Name: f.Manifest().String(), run: func(ctx context.Context, m *meter) error {
		if cfg == nil {
			cfg = f.DefaultConfig()
		}
		near, err := f.New(cfg)
		if err != nil {
			return err
		}
		far, err := f.New(cfg)
		if err != nil {
			return err
		}
		return m.started(ctx, far, func() error {
			return m.started(ctx, near, func() error { return m.pair(ctx, near, far) })
		})
	}}
}

// pair connects two transports and measures.
func (m *meter) pair(ctx context.Context, near, far transport.Transport) (err error) {
	l := &link{local: make([]byte, areaBytes), peer: make([]byte, areaBytes)}
	key, err := far.Register(ctx, region(l.peer, transport.AccessRemote))
	if err != nil {
		return fmt.Errorf("register: %w", err)
	}
	defer func() { err = errors.Join(err, deregister(ctx, far)) }()
	if _, err = near.Register(ctx, region(l.local, transport.AccessLocal)); err != nil {
		return fmt.Errorf("register: %w", err)
	}
	defer func() { err = errors.Join(err, deregister(ctx, near)) }()
	if l.path, err = near.Dial(ctx, far.Endpoint()); err != nil {
		return fmt.Errorf("dial: %w", err)
	}
	defer func() { err = errors.Join(err, cleanup(ctx, l.path.Close)) }()
	if l.remote, err = l.path.Import(ctx, key); err != nil {
		return fmt.Errorf("import: %w", err)
	}
	if err = l.check(ctx); err != nil {
		return err
	}
	for _, size := range []int{64 << 10, largest} {
		one, err := m.streams(ctx, size, 1)
		if err != nil {
			return err
		}
		several, err := m.streams(ctx, size, 4)
		if err != nil {
			return err
		}
		for _, kind := range []transport.OpKind{transport.Write, transport.Read} {
			for _, d := range []struct {
				depth int
				base  *Result
			}{{1, &one}, {deepest, &several}} {
				name := fmt.Sprintf("%s %s depth %d", kindName(kind), sizeName(size), d.depth)
				if _, err := m.measure(ctx, name, size, d.base, func(n int) error { return l.move(ctx, kind, size, d.depth, n) }); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func region(mem []byte, access transport.Access) transport.Region {
	return transport.Region{ID: benchRegion, Mem: mem, FD: -1, Location: "*", Access: access}
}

func deregister(ctx context.Context, t transport.Transport) error {
	return cleanup(ctx, func(ctx context.Context) error { return t.Deregister(ctx, benchRegion) })
}

// cleanup runs do, also when ctx has ended, with a bound of its own.
func cleanup(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	return do(ctx)
}

func kindName(k transport.OpKind) string {
	if k == transport.Read {
		return "read"
	}
	return "write"
}

// link is a path with memory at both ends.
type link struct {
	path        transport.Path
	remote      transport.RemoteID
	local, peer []byte
	done        [deepest]transport.Completion
}

// check moves one page there and back.
func (l *link) check(ctx context.Context) error {
	content.Fill(l.local[:largest], 1, 1)
	if err := l.move(ctx, transport.Write, largest, 1, 1); err != nil {
		return err
	}
	if at := content.Verify(l.peer[:largest], 1, 1); at >= 0 {
		return fmt.Errorf("a written page is wrong from byte %d on", at)
	}
	content.Fill(l.peer[:largest], 2, 1)
	if err := l.move(ctx, transport.Read, largest, 1, 1); err != nil {
		return err
	}
	if at := content.Verify(l.local[:largest], 2, 1); at >= 0 {
		return fmt.Errorf("a read page is wrong from byte %d on", at)
	}
	return nil
}

// move runs n operations with at most depth in flight, each slot in its own part of the memory.
// After an error it waits for the operations in flight.
func (l *link) move(ctx context.Context, kind transport.OpKind, size, depth, n int) error {
	ctx, cancel := context.WithTimeout(ctx, roundTimeout)
	defer cancel()
	free := make([]uint64, depth)
	for i := range free {
		free[i] = uint64(i)
	}
	ops := make([]transport.Op, 0, depth)
	started, finished := 0, 0
	var failed error
	for finished < n {
		ops = ops[:0]
		deadline := time.Now().Add(opTimeout)
		for _, slot := range free[:min(len(free), n-started)] {
			at := int(slot) * size
			ops = append(ops, transport.Op{ID: slot, Kind: kind, Local: l.local[at : at+size], Remote: l.remote, Offset: uint64(at), Deadline: deadline})
		}
		if failed == nil && len(ops) > 0 {
			accepted, err := l.path.Submit(ops)
			started += accepted
			free = free[accepted:]
			if err != nil {
				failed = fmt.Errorf("submit: %w", err)
			}
		}
		if started == finished {
			if failed == nil {
				failed = errors.New("the path accepted nothing while nothing was in flight")
			}
			return failed
		}
		got, err := l.path.Reap(ctx, l.done[:depth])
		if err != nil {
			return errors.Join(failed, fmt.Errorf("reap: %w", err))
		}
		for _, c := range l.done[:got] {
			finished++
			free = append(free, c.ID)
			if c.Status != transport.OK && failed == nil {
				failed = fmt.Errorf("%s of %d bytes: %w", kindName(kind), size, c.Err)
			}
		}
		if failed != nil && started == finished {
			return failed
		}
	}
	return failed
}

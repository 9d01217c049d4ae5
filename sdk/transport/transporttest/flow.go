package transporttest

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/internal/rig"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// backPressure submits without reaping: at some point Submit returns a short count without an
// error, and it accepts more after Reap. Between host and program, completions are always reaped. There the peer is stopped
// meanwhile, so that the path of the program is full too.
func (s *suite) backPressure(t conformance.T) {
	const size, span = 16 << 10, 64 << 20
	var server transport.Transport
	halt, resume := func() {}, func() {}
	stopped := time.Duration(0)
	if s.freeze != nil && s.processes != nil {
		var pid int
		server, pid = s.startProcess(t)
		halt, resume = s.freezer(t, pid)
		stopped = window / 4
	} else {
		server = s.start(t)
	}
	client := s.start(t)
	_, key := s.registerBlank(t, server, 1, span)
	p, ids := dial(t, client, server, key)
	buf := s.local(t, client, 1, size)
	must(t, p, transport.Op{ID: 1, Kind: transport.Write, Local: buf, Remote: ids[0]}) // The path has its connections.
	halt()
	l := ledger{}
	fillUp(t, p, &l, func(i int) transport.Op {
		return transport.Op{ID: uint64(i), Kind: transport.Write, Local: buf, Remote: ids[0], Offset: uint64(i * size % span)}
	})
	l.settle(t, p, stopped) // The program gets what the host accepted, and its path fills.
	resume()
	allOK(t, l.drain(t, p))
	must(t, p, transport.Op{ID: 1, Kind: transport.Write, Local: buf, Remote: ids[0]})
}

// settle reaps for a while, and requires what completes to be OK.
func (l *ledger) settle(t conformance.TB, p transport.Path, d time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	dst := make([]transport.Completion, 16)
	for ctx.Err() == nil && len(l.open) > 0 {
		n, err := p.Reap(ctx, dst)
		if !ended(err) {
			l.reap(t, dst[:n], err)
		}
		for _, c := range dst[:n] {
			allOK(t, map[uint64]transport.Completion{c.ID: c})
		}
	}
}

// fillUp submits without reaping until a path accepts no more.
func fillUp(t conformance.TB, p transport.Path, l *ledger, op func(i int) transport.Op) {
	const most = 1 << 20
	for i := range most {
		o := op(i)
		n, err := p.Submit([]transport.Op{o})
		if err != nil {
			t.Fatalf("Submit of %s with %d operations not reaped: %v; a full path returns a short count without an error", opText(o), i, err)
		}
		if n == 0 {
			if i == 0 {
				t.Fatalf("Submit accepts no operation of a path on which nothing is in flight")
			}
			return
		}
		l.accept([]transport.Op{o})
	}
	t.Fatalf("the path accepted %d operations of which none was reaped; a path that is not reaped must stop accepting", most)
}

// allOK requires completions to be OK.
func allOK(t conformance.TB, done map[uint64]transport.Completion) {
	for id, c := range rig.Ordered(done) {
		if c.Status != transport.OK {
			t.Fatalf("operation %d is %s; it must be OK", id, endText(c))
		}
	}
}

// shrinkPatience is how long a completion may take once the check has failed: the search for a shorter sequence that fails
// repeats the wait many times.
const shrinkPatience = 100 * time.Millisecond

// exactlyOnce is a state machine over one path. The model holds the operations that were accepted
// and not yet reaped.
func (s *suite) exactlyOnce(t conformance.T) {
	server, client := s.start(t), s.start(t)
	const longest, span = 50_000, 64 << 20
	_, key := s.register(t, server, 1, longest, transport.AccessRemote)
	_, hidden := s.register(t, server, 2, longest, transport.AccessLocal)
	buf := s.local(t, client, 1, span+longest)
	at := 0 // Each operation in flight has a buffer of its own.
	patience := conformance.Patience(t)
	rapid.Check(t, func(rt *rapid.T) {
		p, err := client.Dial(context.Background(), server.Endpoint())
		require.NoError(t, err)
		defer func() { require.NoError(t, p.Close(context.Background())) }()
		open, err := p.Import(context.Background(), key)
		require.NoError(t, err)
		denied, err := p.Import(context.Background(), hidden)
		require.NoError(t, err)

		type expect struct {
			failed bool
			op     transport.Op
		}
		model := map[uint64]expect{}
		next, accepted, closed := uint64(0), 0, false
		missing := func() string {
			open := map[uint64]transport.Op{}
			for id, e := range model {
				open[id] = e.op
			}
			return missingText(open, accepted)
		}
		take := func(rt *rapid.T, c transport.Completion) {
			e, ok := model[c.ID]
			if !ok {
				rt.Fatalf("a completion came for operation %d, which is not in flight", c.ID)
			}
			delete(model, c.ID)
			wellFormed(t, c)
			if e.failed && c.Status == transport.OK {
				rt.Fatalf("%s is OK; the region is not open to peers, so it must fail", opText(e.op))
			}
			if !closed && !e.failed && c.Status != transport.OK {
				rt.Fatalf("%s is %s; it must be OK", opText(e.op), endText(c))
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"submit": func(rt *rapid.T) {
				var ops []transport.Op
				for range rapid.IntRange(0, 20).Draw(rt, "count") {
					n := rapid.IntRange(0, longest).Draw(rt, "length")
					o := transport.Op{ID: next, Kind: transport.Read, Local: buf[at : at+n], Remote: open}
					at = (at + n) % span
					if rapid.Bool().Draw(rt, "denied") {
						o.Remote = denied
					}
					next++
					ops = append(ops, o)
				}
				n, err := p.Submit(ops)
				if closed && len(ops) > 0 {
					require.ErrorIs(t, err, transport.ErrPathClosed)
				} else if err != nil {
					rt.Fatalf("submit: %v", err)
				}
				for _, o := range ops[:n] {
					model[o.ID] = expect{o.Remote == denied && len(o.Local) > 0, o}
					accepted++
				}
			},
			"reap": func(rt *rapid.T) {
				if len(model) == 0 {
					return
				}
				dst := make([]transport.Completion, rapid.IntRange(1, 30).Draw(rt, "cap"))
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				n, err := p.Reap(ctx, dst)
				if err != nil { // The deadline has passed, or the path is closed and has nothing left.
					patience = min(patience, shrinkPatience)
					rt.Fatalf("%s; Reap returned: %v", missing(), err)
				}
				require.Positive(t, n)
				for _, c := range dst[:n] {
					take(rt, c)
				}
			},
			"close": func(rt *rapid.T) {
				if rapid.IntRange(0, 9).Draw(rt, "really") == 0 {
					require.NoError(t, p.Close(context.Background()))
					closed = true
				}
			},
		})
		require.NoError(t, p.Close(context.Background()))
		closed = true
		dst := make([]transport.Completion, 7)
		for {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			n, err := p.Reap(ctx, dst)
			cancel()
			for _, c := range dst[:n] {
				take(rt, c)
			}
			if err != nil {
				require.Zero(t, n)
				require.ErrorIs(t, err, transport.ErrPathClosed)
				break
			}
		}
		if len(model) != 0 {
			rt.Fatalf("after Close and Reap: %s", missing())
		}
	})
}

func (s *suite) reapWaits(t conformance.T) {
	server, client := s.start(t), s.start(t)
	p, _ := dial(t, client, server)
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	go func() {
		n, err := p.Reap(ctx, make([]transport.Completion, 1))
		if n != 0 {
			t.Errorf("reaped %d completions, but nothing was submitted", n)
		}
		result <- err
	}()
	cancel()
	select {
	case err := <-result:
		require.True(t, ended(err), "Reap of a path with nothing in flight returned %v", err)
	case <-time.After(conformance.Patience(t)):
		require.Fail(t, "Reap does not end with its context")
	}
	n, err := p.Reap(within(t), nil)
	require.Zero(t, n)
	require.NoError(t, err, "an empty dst does not wait")
}

func (s *suite) reapAfterClose(t conformance.T) {
	server, client := s.start(t), s.start(t)
	_, key := s.register(t, server, 1, 64, transport.AccessRemote)
	p, ids := dial(t, client, server, key)
	buf := s.local(t, client, 1, 64)
	ops := []transport.Op{
		{ID: 1, Kind: transport.Read, Local: buf[:32], Remote: ids[0]}, {ID: 2, Kind: transport.Read, Local: buf[32:], Remote: ids[0]},
	}
	n, err := p.Submit(ops)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.NoError(t, p.Close(within(t)))
	require.NoError(t, p.Close(within(t)), "repeatable")
	n, err = p.Submit(ops)
	require.Zero(t, n)
	require.ErrorIs(t, err, transport.ErrPathClosed)
	_, err = p.Import(within(t), key)
	require.ErrorIs(t, err, transport.ErrPathClosed)
	one := make([]transport.Completion, 1)
	for range 2 {
		n, err := p.Reap(within(t), one)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		wellFormed(t, one[0])
	}
	for range 2 {
		n, err := p.Reap(within(t), one)
		require.Zero(t, n)
		require.ErrorIs(t, err, transport.ErrPathClosed)
	}
}

func (s *suite) closeWakes(t conformance.T) {
	server, client := s.start(t), s.start(t)
	p, _ := dial(t, client, server)
	results := make(chan error, 4)
	for range cap(results) {
		go func() {
			_, err := p.Reap(within(t), make([]transport.Completion, 1))
			results <- err
		}()
	}
	require.NoError(t, p.Close(within(t)))
	for range cap(results) {
		require.ErrorIs(t, <-results, transport.ErrPathClosed)
	}
}

func (s *suite) closeInFlight(t conformance.T) {
	const size, count = 1 << 20, 32
	server, client := s.start(t), s.start(t)
	_, key := s.register(t, server, 1, size, transport.AccessRemote)
	buf := s.local(t, client, 1, size)
	p, ids := dial(t, client, server, key)
	var ops []transport.Op
	for i := range count {
		ops = append(ops, transport.Op{ID: uint64(i), Kind: transport.OpKind(1 + i%2), Local: buf[i*1024:][:1024], Remote: ids[0], Offset: uint64(i * 1024)})
	}
	n, err := p.Submit(ops)
	require.NoError(t, err)
	require.NoError(t, p.Close(within(t)))
	for id, c := range completes(t, p, ops[:n]...) {
		if c.Status != transport.OK && c.Class() != errs.ClassTransientPath {
			t.Fatalf("operation %d, in flight at Close, is %s; Close fails operations with class transient-path", id, endText(c))
		}
	}
	_, err = p.Reap(within(t), make([]transport.Completion, 1))
	require.ErrorIs(t, err, transport.ErrPathClosed)
}

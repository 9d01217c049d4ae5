package transporttest

import (
	"bytes"
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// over returns a context that has ended.
func over() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// endedContexts makes each call with a context that has ended. If a call fails, it retries the call
// with a fresh context.
func (s *suite) endedContexts(t conformance.T) {
	server, client := s.start(t), s.start(t)
	mem := s.memory(t, 4096)
	fill(mem, 5)
	key, err := server.Register(over(), s.region(1, mem, transport.AccessRemote))
	if err != nil {
		key, err = server.Register(within(t), s.region(1, mem, transport.AccessRemote))
		require.NoError(t, err, "a Register that failed left its region behind")
	}
	p, err := client.Dial(over(), server.Endpoint())
	if err != nil {
		p, err = client.Dial(within(t), server.Endpoint())
		require.NoError(t, err)
	}
	t.Cleanup(func() { require.NoError(t, p.Close(context.Background())) })
	id, err := p.Import(over(), key)
	if err != nil {
		id, err = p.Import(within(t), key)
		require.NoError(t, err, "an Import that failed spoiled the key")
	}
	buf := s.local(t, client, 1, 4096)
	must(t, p, transport.Op{ID: 1, Kind: transport.Read, Local: buf, Remote: id})
	require.Equal(t, mem, buf)

	ops := make([]transport.Op, 8)
	for i := range ops {
		ops[i] = transport.Op{ID: uint64(i), Kind: transport.Read, Local: buf[i*512:][:512], Remote: id}
	}
	n, err := p.Submit(ops)
	require.NoError(t, err)
	_ = p.Close(over())
	closedWith(t, p, ops[:n]...)
	require.NoError(t, p.Close(within(t)))

	_ = client.Stop(over())
	require.NoError(t, client.Stop(within(t)), "Stop can be repeated after its context has ended")
	third := s.create(t, s.settings())
	if third.Start(over(), s.host()) == nil {
		s.register(t, third, 1, 64, transport.AccessRemote)
	}
	require.NoError(t, third.Stop(within(t)))
}

// closedWith requires of a closed path that the operations complete, each once, and then no more.
func closedWith(t conformance.TB, p transport.Path, ops ...transport.Op) {
	got, err := p.Submit([]transport.Op{{ID: 1000, Kind: transport.Read}})
	require.Zero(t, got)
	require.ErrorIs(t, err, transport.ErrPathClosed)
	completes(t, p, ops...)
	_, err = p.Reap(within(t), make([]transport.Completion, 1))
	require.ErrorIs(t, err, transport.ErrPathClosed)
}

// completes reaps the operations, which were accepted.
func completes(t conformance.TB, p transport.Path, ops ...transport.Op) map[uint64]transport.Completion {
	l := ledger{}
	l.accept(ops)
	return l.drain(t, p)
}

// endedDeregister: the region is closed to peers whether the call fails or not.
func (s *suite) endedDeregister(t conformance.T) {
	server, client := s.start(t), s.start(t)
	mem, key := s.register(t, server, 1, 4096, transport.AccessRemote)
	before := bytes.Clone(mem)
	p, ids := dial(t, client, server, key)
	buf := s.local(t, client, 1, 4096)
	must(t, p, transport.Op{ID: 1, Kind: transport.Read, Local: buf, Remote: ids[0]})
	_ = server.Deregister(over(), 1)
	closed := func() bool { // The peers may learn of it later.
		c := do(t, p, transport.Op{ID: 2, Kind: transport.Read, Local: buf, Remote: ids[0]})[2]
		return c.Class() == errs.ClassTransientPeer || c.Class() == errs.ClassPermanent
	}
	require.Eventually(t, closed, conformance.Patience(t), time.Millisecond, "the region is still open to peers")
	clear(buf)
	fails(t, p, transport.Op{ID: 3, Kind: transport.Write, Local: buf, Remote: ids[0]}, errs.ClassTransientPeer, errs.ClassPermanent, errs.ClassTransientPath)
	require.Equal(t, before, mem)
}

// stopEndsPaths stops a transport while one of its paths is in use.
func (s *suite) stopEndsPaths(t conformance.T) {
	server, client := s.start(t), s.start(t)
	_, key := s.register(t, server, 1, 1<<20, transport.AccessRemote)
	p, err := client.Dial(within(t), server.Endpoint())
	require.NoError(t, err)
	id, err := p.Import(within(t), key)
	require.NoError(t, err)
	buf := s.local(t, client, 1, 1<<20)
	ops := make([]transport.Op, 32)
	for i := range ops {
		ops[i] = transport.Op{ID: uint64(i), Kind: transport.OpKind(1 + i%2), Local: buf[i<<15:][:1<<15], Remote: id, Offset: uint64(i << 15)}
	}
	n, err := p.Submit(ops)
	require.NoError(t, err)
	require.NoError(t, client.Stop(within(t)))
	got, err := p.Submit(ops[:1])
	require.Zero(t, got)
	require.Error(t, err, "a path of a stopped transport accepts nothing")
	completes(t, p, ops[:n]...)
	_, err = p.Reap(within(t), make([]transport.Completion, 1))
	require.ErrorIs(t, err, transport.ErrPathClosed, "all completions of a stopped transport's path have been reaped")
	require.NoError(t, p.Close(within(t)))
	closedWith(t, p)
}

// reapGivenUp calls Reap with contexts that end during the call.
func (s *suite) reapGivenUp(t conformance.T) {
	const rounds = 300
	server, client := s.start(t), s.start(t)
	_, key := s.register(t, server, 1, 4096, transport.AccessRemote)
	p, ids := dial(t, client, server, key)
	buf := s.local(t, client, 1, 4096)
	l := ledger{}
	dst := make([]transport.Completion, 2)
	for i := 0; i < rounds; {
		o := transport.Op{ID: uint64(i), Kind: transport.Read, Local: buf[i*8:][:8], Remote: ids[0]}
		n, err := p.Submit([]transport.Op{o})
		require.NoError(t, err)
		l.accept([]transport.Op{o}[:n])
		i += n
		ctx, cancel := context.WithCancel(context.Background())
		go cancel()
		n, err = p.Reap(ctx, dst)
		require.True(t, n > 0 || ended(err), "Reap returned %d and %v", n, err)
		l.reap(t, dst[:n], nil)
	}
	l.drain(t, p)
}

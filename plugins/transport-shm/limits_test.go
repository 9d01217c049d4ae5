package shm

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/plugins/transport-shm/internal/wire"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// TestPeersElsewhere: an endpoint of another host is refused before anything is tried, with
// the class that sends the engine on to the next transport.
func TestPeersElsewhere(t *testing.T) {
	n := fresh(t)
	for name, change := range map[string]func(*wire.Endpoint){
		"another boot":              func(e *wire.Endpoint) { e.Host.Boot[3] ^= 1 },
		"another network namespace": func(e *wire.Endpoint) { e.Host.NetNS++ },
	} {
		e := n.self
		change(&e)
		_, err := n.Dial(t.Context(), transport.Endpoint{Blob: e.Encode(), Incarnation: e.Incarnation})
		require.Equal(t, errs.ClassTransientPath, errs.ClassOf(err), name)
		require.Zero(t, n.Stats().Dials, name)
	}
	e := n.self // A clone of this machine: the same names, and no process there.
	e.Socket += "0"
	_, err := n.Dial(t.Context(), transport.Endpoint{Blob: e.Encode(), Incarnation: e.Incarnation})
	require.Equal(t, errs.ClassTransientPath, errs.ClassOf(err))
	require.EqualValues(t, 1, n.Stats().DialsFailed)
}

// loud keeps the log.
type loud struct{ out io.Writer }

func (l loud) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(l.out, nil)) }
func (loud) Report(plugin.Health)   {}

// TestMemoryThatCannotBeShared: it is left to other transports, which is said once, unless it
// is for local use alone.
func TestMemoryThatCannotBeShared(t *testing.T) {
	var log strings.Builder
	n := newNode(*DefaultConfig())
	require.NoError(t, n.Start(t.Context(), loud{&log}))
	defer func() { require.NoError(t, n.Stop(context.Background())) }()
	loose, looseFD := memfd(t, 8192, unix.F_SEAL_SEAL)
	good, goodFD := sealed(t, 8192)
	for name, r := range map[string]transport.Region{
		"no descriptor":           {ID: 1, Mem: make([]byte, 64), FD: -1, Access: transport.AccessRemote},
		"not a memfd":             {ID: 1, Mem: make([]byte, 64), FD: 0, Access: transport.AccessRemote},
		"can shrink, and must so": {ID: 1, Mem: loose, FD: looseFD, Access: transport.AccessRemoteRead},
	} {
		_, err := n.Register(t.Context(), r)
		require.Equal(t, errs.NotSupported, errs.CodeOf(err), name)
		r.Access = transport.AccessLocal
		_, err = n.Register(t.Context(), r)
		require.NoError(t, err, name)
		require.NoError(t, n.Deregister(t.Context(), 1))
	}
	for _, off := range []int64{-1, 1, 8192, 1 << 62} {
		_, err := n.Register(t.Context(), transport.Region{ID: 1, Mem: good, FD: goodFD, FDOffset: off, Access: transport.AccessRemote})
		require.Equal(t, errs.InvalidParams, errs.CodeOf(err), "offset %d", off)
	}
	require.Equal(t, 1, strings.Count(log.String(), "left to other transports"), log.String())
	open, openFD := memfd(t, 8192, 0)
	_, err := n.Register(t.Context(), transport.Region{ID: 2, Mem: open, FD: openFD, Access: transport.AccessRemote})
	require.NoError(t, err)
	require.Error(t, unix.Ftruncate(openFD, 0), "it was sealed")
}

// TestMappingsAreBounded: regions beyond max_mappings are left to other transports.
func TestMappingsAreBounded(t *testing.T) {
	r := newPair(t, 8192, func(c *Config) { c.MaxMappings = 1 })
	mem, fd := sealed(t, 8192)
	key, err := r.server.Register(t.Context(), transport.Region{ID: 2, Mem: mem, FD: fd, Access: transport.AccessRemote})
	require.NoError(t, err)
	second, err := r.path.Import(t.Context(), key)
	require.NoError(t, err)
	read := transport.Op{Kind: transport.Read, Local: make([]byte, 64), Remote: r.id}
	require.Equal(t, transport.OK, one(t, r.path, read).Status)
	read.Remote = second
	for range 2 { // The second fails at once.
		got := one(t, r.path, read)
		require.Equal(t, errs.ClassTransientPath, got.Class(), "%v", got.Err)
	}
	require.EqualValues(t, 1, r.client.Stats().Mappings)
	require.NoError(t, r.server.Deregister(t.Context(), 2), "what was not mapped is not held")
	require.NoError(t, r.server.Deregister(t.Context(), 1))
	require.Zero(t, r.client.Stats().Mappings)
	require.Zero(t, r.client.Stats().MappedBytes)
}

// TestNothingIsLeft: descriptors and mappings are those from before.
func TestNothingIsLeft(t *testing.T) {
	settled := func() (fds, maps int) { return resources(t) }
	run := func() {
		r := newPair(t, 1<<20)
		for i := range 20 {
			p, id := dialTo(t, r.client, r.server.Endpoint(), r.key)
			require.Equal(t, transport.OK, one(t, p, transport.Op{Kind: transport.OpKind(1 + i%2), Local: make([]byte, 1000), Remote: id}).Status)
			if i%3 == 0 {
				require.NoError(t, p.Close(t.Context()))
			}
		}
		require.NoError(t, r.client.Stop(t.Context()))
		require.NoError(t, r.server.Stop(t.Context()))
		s := r.server.Stats()
		require.Zero(t, s.Grants)
		require.Zero(t, s.ConnectionsIn)
		require.EqualValues(t, s.Granted, r.client.Stats().Attached)
		require.Zero(t, r.client.Stats().ConnectionsOut)
	}
	t.Run("warm", func(*testing.T) { run() })
	fds, maps := settled()
	run()
	nowFDs, nowMaps := settled()
	require.Equal(t, fds+1, nowFDs, "the test's own memory is still there")
	require.Equal(t, maps+1, nowMaps)
}

// TestConnectingAgain: a path outlives the loss of its connection.
func TestConnectingAgain(t *testing.T) {
	r := newPair(t, 1<<20)
	read := transport.Op{Kind: transport.Read, Local: make([]byte, 64), Remote: r.id}
	require.Equal(t, transport.OK, one(t, r.path, read).Status)
	r.server.mu.Lock()
	for s := range r.server.conns {
		_ = s.conn.CloseWrite()
	}
	r.server.mu.Unlock()
	r.path.connsDone.Wait()
	require.Zero(t, r.server.Stats().Mappings)
	ok := false
	for end := time.Now().Add(time.Minute); !ok && time.Now().Before(end); {
		ok = one(t, r.path, read).Status == transport.OK
	}
	require.True(t, ok)
	require.EqualValues(t, 2, r.client.Stats().Dials)
}

// TestNoAllocation: in steady state an operation costs no memory.
func TestNoAllocation(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	r := newPair(t, 1<<20)
	ops := make([]transport.Op, 32)
	dst := make([]transport.Completion, len(ops))
	local := make([]byte, 1<<20)
	for i := range ops {
		ops[i] = transport.Op{ID: uint64(i), Kind: transport.OpKind(1 + i%2), Local: local[i<<15:][:1<<15], Remote: r.id, Offset: uint64(i) << 15}
	}
	ctx := context.Background()
	round := func() {
		if n, err := r.path.Submit(ops); n != len(ops) || err != nil {
			t.Fatal(n, err)
		}
		for open := len(ops); open > 0; {
			n, err := r.path.Reap(ctx, dst)
			if err != nil {
				t.Fatal(err)
			}
			open -= n
		}
	}
	round()
	require.Less(t, testing.AllocsPerRun(200, round), 1.0)
	s := r.client.Stats()
	require.Less(t, s.Batches, s.Slices, "small operations are taken several at a time")
	require.Equal(t, s.OpsOK, s.Slices)
}

// TestRefusedConnection: a peer that is not admitted is told why, and other transports take over.
// It tries again by itself.
func TestRefusedConnection(t *testing.T) {
	r := newPair(t, 8192, func(c *Config) { c.MaxConnections = 1 })
	read := transport.Op{Kind: transport.Read, Local: make([]byte, 64), Remote: r.id}
	require.Equal(t, transport.OK, one(t, r.path, read).Status)
	second := fresh(t)
	late, id := dialTo(t, second, r.server.Endpoint(), r.key)
	read.Remote = id
	for range 200 {
		got := one(t, late, read)
		require.Equal(t, errs.ClassTransientPath, got.Class(), "%v", got.Err)
		require.ErrorContains(t, got.Err, "as many connections as it allows")
	}
	require.Less(t, second.Stats().Dials, uint64(20), "most of them failed at once")
	require.NoError(t, r.path.Close(t.Context()))
	require.Eventually(t, func() bool { return one(t, late, read).Status == transport.OK }, time.Minute, time.Millisecond)
}

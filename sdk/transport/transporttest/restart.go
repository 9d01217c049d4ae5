package transporttest

import (
	"bytes"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/internal/rig"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// successor replaces a stopped transport by another one that has a region with the same ID.
func (s *suite) successor(t conformance.T) {
	first, client := s.start(t), s.start(t)
	_, key := s.register(t, first, 1, 256, transport.AccessRemote)
	p, ids := dial(t, client, first, key)
	buf := s.local(t, client, 1, 256)
	must(t, p, transport.Op{ID: 1, Kind: transport.Read, Local: buf, Remote: ids[0]})
	require.NoError(t, first.Stop(within(t)))

	second := s.start(t)
	mem, fresh := s.register(t, second, 1, 256, transport.AccessRemote)
	fill(mem, 99)
	before := bytes.Clone(mem)
	q, freshIDs := dial(t, client, second, fresh)
	_, err := q.Import(within(t), key)
	require.Error(t, err, "a key of another transport")
	fails(t, p, soon(transport.Op{ID: 2, Kind: transport.Write, Local: buf, Remote: ids[0]}), errs.ClassTransientPath, errs.ClassTransientPeer)
	require.Equal(t, before, mem)
	must(t, q, transport.Op{ID: 3, Kind: transport.Read, Local: buf, Remote: freshIDs[0]})
	require.Equal(t, before, buf)
}

// capabilities checks the capabilities that the manifest claims.
func (s *suite) capabilities(t conformance.T) {
	m, tr := s.f.Manifest(), s.start(t)
	if m.Has(transport.CapUpstream) {
		_, ok := transport.As[transport.Upstream](tr)
		require.True(t, ok, "a transport with CapUpstream implements Upstream")
	}
	if m.Has(transport.CapRails) {
		p, _ := dial(t, tr, tr)
		_, ok := transport.As[transport.Railed](p)
		require.True(t, ok, "a path of a transport with CapRails implements Railed")
	}
	if c, ok := transport.As[transport.Changing](tr); ok {
		require.NotNil(t, c.Changed())
		require.Equal(t, c.Changed(), c.Changed(), "the channel is the same on every call")
		require.Equal(t, 1, cap(c.Changed()))
	}
}

// startProcess starts a transport and finds its process.
func (s *suite) startProcess(t conformance.T) (transport.Transport, int) {
	before := s.processes()
	tr := s.start(t)
	for _, pid := range s.processes() {
		if !slices.Contains(before, pid) {
			return tr, pid
		}
	}
	require.Fail(t, "no process was started", "before: %v, now: %v", before, s.processes())
	return nil, 0
}

// killed kills the processes of both sides, one after the other.
func (s *suite) killed(t conformance.T) {
	if s.kill == nil || s.processes == nil {
		t.Skip("the transport runs in this process; needs WithProcesses and WithKill")
	}
	const size = 1 << 20
	server, serverPID := s.startProcess(t)
	client, clientPID := s.startProcess(t)
	mem, key := s.register(t, server, 1, size, transport.AccessRemote)
	p, ids := dial(t, client, server, key)
	buf := s.local(t, client, 1, size)
	fill(buf, 41)
	ops := make([]transport.Op, 32)
	for i := range ops {
		ops[i] = transport.Op{ID: uint64(i), Kind: transport.Write, Local: buf[i<<15:][:1<<15], Remote: ids[0], Offset: uint64(i << 15)}
	}
	must(t, p, ops...)

	n, err := p.Submit(ops)
	require.NoError(t, err)
	require.NoError(t, s.kill(clientPID))
	completes(t, p, ops[:n]...)
	rig.Recovered(t, func() error { return try(t, p, ops[0]) })
	must(t, p, ops...)
	require.True(t, bytes.Equal(buf, mem))

	require.NoError(t, s.kill(serverPID))
	renewing, ok := transport.As[interface {
		Key(transport.RegionID) (transport.Key, error)
	}](server)
	require.True(t, ok, "a transport in a process of its own renews its keys")
	fill(buf, 42)
	rig.Recovered(t, func() error {
		key, err := renewing.Key(1)
		if err != nil {
			return err
		}
		q, err := client.Dial(within(t), server.Endpoint())
		if err != nil {
			return err
		}
		defer q.Close(within(t))
		id, err := q.Import(within(t), key)
		if err != nil {
			return err
		}
		return try(t, q, transport.Op{ID: 1, Kind: transport.Write, Local: buf, Remote: id})
	})
	require.True(t, bytes.Equal(buf, mem), "the region is the same memory as before")
}

// restartedByKill kills the process of a peer, which its supervisor starts again with the same regions, and uses the
// keys of the killed one.
func (s *suite) restartedByKill(t conformance.T) {
	const size = 256
	server, pid := s.startProcess(t)
	client := s.start(t)
	mem, key := s.register(t, server, 1, size, transport.AccessRemote)
	old := server.Endpoint()
	p, ids := dial(t, client, server, key)
	buf := s.local(t, client, 1, size)
	must(t, p, transport.Op{ID: 1, Kind: transport.Read, Local: buf, Remote: ids[0]})
	require.NoError(t, s.kill(pid))
	q := s.again(t, server, client, old, buf)
	fill(mem, 4711)
	before := bytes.Clone(mem)
	fill(buf, 5)
	for i := range 3 { // The first ones may learn only that the connection has failed.
		o := soon(transport.Op{ID: uint64(2 + i), Kind: transport.Write, Local: buf, Remote: ids[0]})
		fails(t, p, o, errs.ClassTransientPeer, errs.ClassTransientPath)
		if at := differs(before, mem); at >= 0 {
			t.Fatalf("%s with the key of the killed process changed memory of the new one at %d", opText(o), at)
		}
	}
	_, err := q.Import(within(t), key)
	require.Error(t, err, "Import of a key of the killed process on a path to the new one")
}

// again waits until a peer that was killed can be read, and returns a path to its new process.
func (s *suite) again(t conformance.T, server, client transport.Transport, old transport.Endpoint, buf []byte) (q transport.Path) {
	renewing, ok := transport.As[interface {
		Key(transport.RegionID) (transport.Key, error)
	}](server)
	require.True(t, ok, "a transport in a process of its own renews its keys")
	rig.Recovered(t, func() error {
		ep := server.Endpoint()
		if ep.Incarnation == old.Incarnation {
			return errs.New(errs.UnavailableInCurrentStatus, "", "the endpoint of the killed process has not changed")
		}
		key, err := renewing.Key(1)
		if err != nil {
			return err
		}
		p, err := client.Dial(within(t), ep)
		if err != nil {
			return err
		}
		id, err := p.Import(within(t), key)
		if err == nil {
			err = try(t, p, transport.Op{ID: 1, Kind: transport.Read, Local: buf, Remote: id})
		}
		if err != nil {
			_ = p.Close(within(t))
			return err
		}
		q = p
		return nil
	})
	t.Cleanup(func() { require.NoError(t, q.Close(within(t))) })
	return q
}

// try runs one operation and returns its error.
func try(t conformance.TB, p transport.Path, o transport.Op) error {
	o.Deadline = time.Now().Add(2 * time.Second)
	n, err := p.Submit([]transport.Op{o})
	if err != nil || n == 0 {
		return err
	}
	dst := make([]transport.Completion, 1)
	_, err = p.Reap(within(t), dst)
	require.NoError(t, err)
	return dst[0].Err
}

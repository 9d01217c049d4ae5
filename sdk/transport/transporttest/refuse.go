package transporttest

import (
	"bytes"
	"errors"
	"math"

	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/internal/rig"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// soon gives a short deadline to an operation that is expected to time out.
func soon(o transport.Op) transport.Op {
	o.Deadline = time.Now().Add(150 * time.Millisecond)
	return o
}

func (s *suite) submitRefuses(t conformance.T) {
	server, client := s.start(t), s.start(t)
	mem, key := s.register(t, server, 1, 1000, transport.AccessRemote)
	before := bytes.Clone(mem)
	p, ids := dial(t, client, server, key)
	buf := s.local(t, client, 1, 1000)
	good := transport.Op{ID: 1, Kind: transport.Read, Local: buf[:10], Remote: ids[0]}
	// Only the transport itself, which may be another process, can detect these.
	pastEnd := map[string]bool{"past the end": true, "far past the end": true, "overflow": true, "empty, past the end": true}
	for name, bad := range rig.Ordered(map[string]transport.Op{
		"no remote":             {Kind: transport.Read, Local: buf[:10]},
		"unknown remote":        {Kind: transport.Read, Local: buf[:10], Remote: ids[0] + 1000},
		"past the end":          {Kind: transport.Write, Local: buf[:10], Remote: ids[0], Offset: 991},
		"far past the end":      {Kind: transport.Read, Local: buf[:10], Remote: ids[0], Offset: 1 << 40},
		"overflow":              {Kind: transport.Write, Local: buf[:10], Remote: ids[0], Offset: math.MaxUint64 - 4},
		"empty, past the end":   {Kind: transport.Read, Remote: ids[0], Offset: 1001},
		"neither read or write": {Kind: 9, Local: buf[:10], Remote: ids[0]},
	}) {
		bad.ID = 2
		n, err := p.Submit([]transport.Op{good, bad, good})
		if pastEnd[name] && n == 3 && err == nil {
			s.failsLater(t, p, good.ID, bad.ID)
			continue
		}
		require.Equal(t, 1, n, "%s: operations before the bad one are accepted", name)
		require.Equal(t, errs.ClassPermanent, errs.ClassOf(err), "%s: %v", name, err)
		l := ledger{}
		l.accept([]transport.Op{good})
		next := transport.Op{ID: 3, Kind: transport.Read, Local: buf[10:20], Remote: ids[0]}
		n, err = p.Submit([]transport.Op{next})
		require.NoError(t, err)
		require.Equal(t, 1, n, "what comes after a refused operation")
		l.accept([]transport.Op{next})
		l.drain(t, p) // A refused operation gets no completion.
	}
	require.Equal(t, before, mem)
	n, err := p.Submit(nil)
	require.Zero(t, n)
	require.NoError(t, err)
}

// failsLater takes three completions: those of good are OK, that of bad has class permanent.
func (s *suite) failsLater(t conformance.T, p transport.Path, good, bad uint64) {
	seen := map[uint64]int{}
	dst := make([]transport.Completion, 3)
	for left := 3; left > 0; {
		n, err := p.Reap(within(t), dst)
		require.NoError(t, err)
		for _, c := range dst[:n] {
			wellFormed(t, c)
			seen[c.ID]++
			if c.ID == bad {
				if c.Status != transport.Failed || c.Class() != errs.ClassPermanent {
					t.Fatalf("operation %d, whose range is past the end of its region, is %s; it must be Failed with class permanent", c.ID, endText(c))
				}
			} else {
				require.Equal(t, transport.OK, c.Status, "%v", c.Err)
			}
		}
		left -= n
	}
	require.Equal(t, map[uint64]int{good: 2, bad: 1}, seen)
}

func (s *suite) importRefuses(t conformance.T) {
	server, other, client := s.start(t), s.start(t), s.start(t)
	_, key := s.register(t, server, 1, 64, transport.AccessRemote)
	_, foreign := s.register(t, other, 1, 64, transport.AccessRemote)
	p, _ := dial(t, client, server)
	for name, k := range rig.Ordered(map[string]transport.Key{
		"nil": nil, "empty": {}, "noise": bytes.Repeat([]byte{0xa5}, 100), "cut off": key[:len(key)-1],
		"too long": append(bytes.Clone(key), 0), "huge": make([]byte, 1<<16),
	}) {
		_, err := p.Import(within(t), k)
		require.Error(t, err, "Import of a malformed key (%s) must be an error", name)
	}
	_, err := p.Import(within(t), foreign)
	require.Error(t, err, "a key of another incarnation")
	require.NotEqual(t, errs.ClassPermanent, errs.ClassOf(err), "other keys of that peer would work")
	a, err := p.Import(within(t), key)
	require.NoError(t, err)
	require.NotZero(t, a)
}

func (s *suite) dialRefuses(t conformance.T) {
	tr := s.start(t)
	ep := tr.Endpoint()
	for name, bad := range rig.Ordered(map[string]transport.Endpoint{
		"nothing": {}, "noise": {Blob: bytes.Repeat([]byte{0x5a}, 200), Incarnation: 1},
		"cut off":   {Blob: ep.Blob[:len(ep.Blob)-1], Incarnation: ep.Incarnation},
		"too large": {Blob: make([]byte, 1<<16), Incarnation: ep.Incarnation},
	}) {
		_, err := tr.Dial(within(t), bad)
		require.Error(t, err, "Dial of a malformed endpoint (%s) must be an error", name)
	}
}

func (s *suite) rights(t conformance.T) {
	server, client := s.start(t), s.start(t)
	buf := s.local(t, client, 1, 128)
	for id, access := range rig.Ordered(map[transport.RegionID]transport.Access{
		1: transport.AccessLocal, 2: transport.AccessRemoteRead, 3: transport.AccessRemoteWrite, 4: transport.AccessRemote,
	}) {
		mem, key := s.register(t, server, id, 128, access)
		before := bytes.Clone(mem)
		p, ids := dial(t, client, server, key)
		clear(buf)
		read := transport.Op{ID: 1, Kind: transport.Read, Local: buf, Remote: ids[0]}
		if access&transport.AccessRemoteRead != 0 {
			must(t, p, read)
			require.Equal(t, before, buf)
		} else {
			fails(t, p, read, errs.ClassPermanent)
			require.Equal(t, make([]byte, 128), buf, "nothing leaks")
		}
		fill(buf, 77)
		write := transport.Op{ID: 2, Kind: transport.Write, Local: buf, Remote: ids[0]}
		if access&transport.AccessRemoteWrite != 0 {
			must(t, p, write)
			require.Equal(t, buf, mem)
		} else {
			fails(t, p, write, errs.ClassPermanent)
			require.Equal(t, before, mem)
		}
	}
}

// forgedKey: a peer cannot turn the key of one region into that of another.
func (s *suite) forgedKey(t conformance.T) {
	server, client := s.start(t), s.start(t)
	secret, key := s.register(t, server, 1, 256, transport.AccessRemote)
	before := bytes.Clone(secret)
	p, _ := dial(t, client, server)
	for i := range key { // Each altered key is refused or opens no other memory.
		bent := bytes.Clone(key)
		bent[i] ^= 1
		id, err := p.Import(within(t), bent)
		if err != nil {
			continue
		}
		buf := s.local(t, client, transport.RegionID(100+i), 256)
		n, err := p.Submit([]transport.Op{{ID: 1, Kind: transport.Read, Local: buf, Remote: id}})
		if err != nil {
			require.Equal(t, errs.ClassPermanent, errs.ClassOf(err), "%v", err)
			continue
		}
		require.Equal(t, 1, n)
		dst := make([]transport.Completion, 1)
		_, err = p.Reap(within(t), dst)
		require.NoError(t, err)
		wellFormed(t, dst[0])
		if dst[0].Status == transport.OK {
			require.Equal(t, before, buf, "byte %d of the key has no meaning, so the altered key opens the same region", i)
		}
	}
	require.Equal(t, before, secret)
}

func (s *suite) restarted(t conformance.T) {
	if s.restartAt == nil && s.kill != nil && s.processes != nil {
		s.restartedByKill(t)
		return
	}
	if s.restartAt == nil {
		t.Skip("needs WithRestart, or WithKill and WithProcesses")
	}
	client := s.start(t)
	buf := s.local(t, client, 1, 256)
	var old transport.Endpoint
	var p transport.Path
	var ids []transport.RemoteID
	var second transport.Transport
	for try := 1; ; try++ {
		first := s.start(t)
		_, key := s.register(t, first, 1, 256, transport.AccessRemote)
		old = first.Endpoint()
		p, ids = dial(t, client, first, key)
		must(t, p, transport.Op{ID: 1, Kind: transport.Read, Local: buf, Remote: ids[0]})
		require.NoError(t, first.Stop(within(t)))

		second = s.create(t, s.restartAt(s.settings(), old))
		err := second.Start(within(t), s.host())
		if err == nil {
			break
		}
		require.Less(t, try, 5, "%v", err) // Another process may have taken the address meanwhile.
	}
	mem, fresh := s.register(t, second, 1, 256, transport.AccessRemote)
	fill(mem, 4711)
	before := bytes.Clone(mem)
	require.NotEqual(t, old.Incarnation, second.Endpoint().Incarnation)

	write := transport.Op{ID: 2, Kind: transport.Write, Local: buf, Remote: ids[0]}
	c := do(t, p, write)[2]
	if c.Class() == errs.ClassTransientPath { // The old connection had not failed yet.
		c = do(t, p, write)[2]
	}
	require.Equal(t, errs.ClassTransientPeer, c.Class(), "%v", c.Err)
	require.Equal(t, before, mem, "a key of the old incarnation never touches memory of the new one")

	q, ids := dial(t, client, second, fresh)
	must(t, q, transport.Op{ID: 3, Kind: transport.Read, Local: buf, Remote: ids[0]})
	require.Equal(t, before, buf)
	_, err := p.Import(within(t), fresh)
	require.Error(t, err, "a key of the new incarnation on a path to the old")
	require.False(t, errors.Is(err, transport.ErrPathClosed))
}

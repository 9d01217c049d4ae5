package transporttest

import (
	"bytes"

	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// railed returns the rails of a path, or skips the test.
func (s *suite) railed(t conformance.T, p transport.Path) transport.Railed {
	if !s.f.Manifest().Has(transport.CapRails) {
		t.Skip("the transport does not have the capability rails")
	}
	r, ok := transport.As[transport.Railed](p)
	require.True(t, ok, "a path of a transport with CapRails implements Railed")
	return r
}

// rails moves content over each rail.
func (s *suite) rails(t conformance.T) {
	const size = 100_000
	server, client := s.start(t), s.start(t)
	mem, key := s.register(t, server, 1, size, transport.AccessRemote)
	p, ids := dial(t, client, server, key)
	railed := s.railed(t, p)
	buf := s.local(t, client, 1, size)
	rails := railed.Rails()
	require.NotEmpty(t, rails)
	seen := map[transport.RailID]bool{}
	for i, r := range rails {
		require.NotZero(t, r.ID, "0 is not a rail")
		require.False(t, seen[r.ID], "each rail has its own ID")
		seen[r.ID] = true
		require.NotEmpty(t, r.Local)
		require.NotEmpty(t, r.Remote)
		require.True(t, r.Up, "%+v", r)
		fill(buf, uint64(100+i))
		must(t, p, transport.Op{ID: 1, Kind: transport.Write, Local: buf, Remote: ids[0], Rail: r.ID})
		require.True(t, bytes.Equal(buf, mem), "written over %+v", r)
		clear(buf)
		must(t, p, transport.Op{ID: 2, Kind: transport.Read, Local: buf, Remote: ids[0], Rail: r.ID})
		require.True(t, bytes.Equal(buf, mem), "read over %+v", r)
	}
	rails[0] = transport.Rail{}
	for i, r := range railed.Rails() {
		require.True(t, seen[r.ID], "the same rails as before")
		require.False(t, i == 0 && r == rails[0], "the caller owns the slice")
	}
}

// unknownRail: an operation for a rail that does not exist is refused.
func (s *suite) unknownRail(t conformance.T) {
	server, client := s.start(t), s.start(t)
	_, key := s.register(t, server, 1, 64, transport.AccessRemote)
	p, ids := dial(t, client, server, key)
	unknown := transport.RailID(len(s.railed(t, p).Rails()) + 1)
	for known := true; known; {
		known = false
		for _, r := range s.railed(t, p).Rails() {
			if r.ID == unknown {
				unknown, known = unknown+1, true
			}
		}
	}
	buf := s.local(t, client, 1, 64)
	good := transport.Op{ID: 1, Kind: transport.Read, Local: buf[:32], Remote: ids[0]}
	bad := good
	bad.ID, bad.Rail, bad.Local = 2, unknown, buf[32:]
	n, err := p.Submit([]transport.Op{good, bad})
	require.Equal(t, 1, n)
	require.Equal(t, errs.ClassPermanent, errs.ClassOf(err), "%v", err)
	dst := make([]transport.Completion, 2)
	n, err = p.Reap(within(t), dst)
	require.NoError(t, err)
	require.Equal(t, 1, n, "a refused operation gets no completion")
}

// railDown takes a device down in the middle of transfers and brings it back.
func (s *suite) railDown(t conformance.T) {
	if s.deviceDown == nil {
		t.Skip("needs WithDeviceDown")
	}
	const size, piece = 4 << 20, 64 << 10
	server, client := s.start(t), s.start(t)
	mem, key := s.register(t, server, 1, size, transport.AccessRemote)
	p, ids := dial(t, client, server, key)
	railed := s.railed(t, p)
	buf := s.local(t, client, 1, size)
	lost, kept := pickRails(t, railed.Rails())
	fill(buf, 5)
	var ops []transport.Op
	for at := 0; at < size; at += piece {
		o := transport.Op{ID: uint64(at / piece), Kind: transport.Write, Local: buf[at:][:piece], Remote: ids[0], Offset: uint64(at), Rail: kept.ID}
		if at/piece%2 == 0 {
			o.Rail = lost.ID
		}
		ops = append(ops, o)
	}
	must(t, p, ops[:2]...) // Both rails work.
	n, err := p.Submit(ops)
	require.NoError(t, err)
	require.Equal(t, len(ops), n)
	up := s.deviceDown(t, lost.Local)
	var again []transport.Op
	dst := make([]transport.Completion, 16)
	for open := n; open > 0; {
		n, err := p.Reap(within(t), dst)
		require.NoError(t, err)
		open -= n
		for _, c := range dst[:n] {
			wellFormed(t, c)
			if c.Status == transport.OK {
				continue
			}
			require.Equal(t, lost.ID, ops[c.ID].Rail, "the other rail is unaffected: %v", c.Err)
			require.Equal(t, errs.ClassTransientPath, c.Class(), "%v", c.Err)
			o := ops[c.ID]
			o.Rail = kept.ID
			again = append(again, o)
		}
	}
	waitRail(t, railed, lost.ID, false)
	must(t, p, again...)
	require.True(t, bytes.Equal(buf, mem))
	fails(t, p, transport.Op{ID: 1, Kind: transport.Read, Local: buf[:64], Remote: ids[0], Rail: lost.ID}, errs.ClassTransientPath)
	must(t, p, transport.Op{ID: 2, Kind: transport.Read, Local: buf[:64], Remote: ids[0]})
	up()
	waitRail(t, railed, lost.ID, true)
	fill(buf, 6)
	for i := range ops {
		ops[i].ID += 1000
	}
	for open := ops; len(open) > 0; { // The first operations may fail because the peer's side is not up yet.
		var again []transport.Op
		for id, c := range do(t, p, open...) {
			if c.Status != transport.OK {
				require.Equal(t, errs.ClassTransientPath, c.Class(), "%v", c.Err)
				again = append(again, ops[id-1000])
			}
		}
		open = again
		if len(open) > 0 {
			waitRail(t, railed, lost.ID, true)
		}
	}
	require.True(t, bytes.Equal(buf, mem))
}

// pickRails returns two rails that share no device.
func pickRails(t conformance.T, rails []transport.Rail) (a, b transport.Rail) {
	for _, a := range rails {
		for _, b := range rails {
			if a.Local != b.Local && a.Remote != b.Remote && a.Local == a.Remote && b.Local == b.Remote {
				return a, b
			}
		}
	}
	t.Skip("needs two devices")
	return a, b
}

// waitRail waits until a rail is up or down.
func waitRail(t conformance.T, r transport.Railed, id transport.RailID, up bool) {
	require.Eventually(t, func() bool {
		for _, x := range r.Rails() {
			if x.ID == id {
				return x.Up == up
			}
		}
		return false
	}, conformance.Patience(t), time.Millisecond, "rail %d never became up=%v", id, up)
}

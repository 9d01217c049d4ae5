package interop

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// span is the memory of each side; parts are the places and sizes that are moved, odd on
// purpose.
const span = 65 << 20

var parts = []struct{ offset, size int }{
	{0, 1}, {3, 7}, {4095, 2}, {1, 4095}, {65535, 65536}, {17, 65537}, {1<<20 - 1, 1<<20 + 3}, {5, 9<<20 + 1}, {777, 64 << 20},
}

// speakers are the ways in which the two sides may speak to each other.
var speakers = []struct{ name, env, config string }{
	{"version 2", "MC_TCP_PROTO=2", `{"host":"127.0.0.1"}`},
	{"version 2, connections kept", "MC_TCP_ENABLE_CONNECTION_POOL=1", `{"host":"127.0.0.1","connections_per_peer":1}`},
	{"version 1", "MC_TCP_PROTO=1", `{"host":"127.0.0.1","upstream_proto":1}`},
}

// TestUpstreamReachesUs: its node reads and writes the memory of ours.
func TestUpstreamReachesUs(t *testing.T) {
	for _, s := range speakers {
		t.Run(s.name, func(t *testing.T) {
			u, n := newUpstream(t, span, s.env), newNode(t, span, s.config)
			require.Equal(t, n.addr(0), u.call(t, map[string]any{"call": "first", "target": n.name()}).Addr, "it reads our descriptor")
			for i, part := range parts {
				want := u.fill(t, part.offset, part.size, i)
				require.Zero(t, u.move(t, "write", n.name(), part.offset, n.addr(part.offset), part.size))
				settle(t, s.env, u, n, part.offset, part.size, want)
				require.Equal(t, want, digest(n.mem[part.offset:][:part.size]), "%d bytes at %d written", part.size, part.offset)

				random(n.mem[part.offset:][:part.size], i)
				require.Zero(t, u.move(t, "read", n.name(), part.offset, n.addr(part.offset), part.size))
				require.Equal(t, digest(n.mem[part.offset:][:part.size]), u.digest(t, part.offset, part.size), "%d bytes at %d read", part.size, part.offset)
			}
		})
	}
}

// settle waits for a write of version 1, which its initiator takes as done when the bytes
// have left it: it reads them back until they are there.
func settle(t *testing.T, env string, u *upstream, n *node, offset, size int, want string) {
	if env != "MC_TCP_PROTO=1" {
		return
	}
	for end := time.Now().Add(patience); ; {
		require.Zero(t, u.move(t, "read", n.name(), offset, n.addr(offset), size))
		if u.digest(t, offset, size) == want {
			return
		}
		require.True(t, time.Now().Before(end), "the bytes never came")
	}
}

// TestWeReachUpstream: our node reads and writes the memory of its.
func TestWeReachUpstream(t *testing.T) {
	for _, s := range speakers {
		t.Run(s.name, func(t *testing.T) {
			u, n := newUpstream(t, span, s.env), newNode(t, 64, s.config)
			p, id := n.path(t, u.name)
			buf := make([]byte, span)
			for i, part := range parts {
				want := u.fill(t, part.offset, part.size, i)
				local := buf[:part.size]
				ok(t, p, transport.Op{Kind: transport.Read, Local: local, Remote: id, Offset: uint64(part.offset)})
				require.Equal(t, want, digest(local), "%d bytes at %d read", part.size, part.offset)

				random(local, i)
				ok(t, p, transport.Op{Kind: transport.Write, Local: local, Remote: id, Offset: uint64(part.offset)})
				require.Equal(t, digest(local), u.digest(t, part.offset, part.size), "%d bytes at %d written", part.size, part.offset)
			}
		})
	}
}

// TestBatches: many requests at once, in either direction, each in its place.
func TestBatches(t *testing.T) {
	const count, size = 300, 4099
	for _, s := range speakers {
		t.Run(s.name, func(t *testing.T) {
			u, n := newUpstream(t, count*size, s.env), newNode(t, count*size, s.config)
			want := u.fill(t, 0, count*size, 1)
			var offsets, sizes []int
			var addrs []uint64
			for i := range count {
				at := (i * 7 % count) * size
				offsets, addrs, sizes = append(offsets, at), append(addrs, n.addr(at)), append(sizes, size)
			}
			args := map[string]any{"call": "batch", "op": "write", "target": n.name(), "offsets": offsets, "addrs": addrs, "sizes": sizes}
			require.Zero(t, u.call(t, args).RC)
			settle(t, s.env, u, n, 0, count*size, want)
			require.Equal(t, want, digest(n.mem))
			random(n.mem, 2)
			args["op"] = "read"
			require.Zero(t, u.call(t, args).RC)
			require.Equal(t, digest(n.mem), u.digest(t, 0, count*size))

			p, id := n.path(t, u.name)
			random(n.mem, 3)
			ops := make([]transport.Op, count)
			for i := range ops {
				at := (i * 11 % count) * size
				ops[i] = transport.Op{Kind: transport.Write, Local: n.mem[at:][:size], Remote: id, Offset: uint64(at)}
			}
			ok(t, p, ops...)
			require.Equal(t, digest(n.mem), u.digest(t, 0, count*size))
			want = u.fill(t, 0, count*size, 4)
			for i := range ops {
				ops[i].Kind = transport.Read
			}
			ok(t, p, ops...)
			require.Equal(t, want, digest(n.mem))
		})
	}
}

// TestRejections: an address that is not the other's is refused on both sides, and the next
// request works.
func TestRejections(t *testing.T) {
	for _, s := range speakers {
		t.Run(s.name, func(t *testing.T) {
			u, n := newUpstream(t, 4096, s.env), newNode(t, 4096, s.config)
			gone, err := n.tr.Register(t.Context(), transport.Region{ID: 2, Mem: make([]byte, 64), FD: -1, Access: transport.AccessRemote})
			require.NoError(t, err)
			require.NotEmpty(t, gone)
			n.publish(t)
			second := n.up.Segment().Buffers[1]
			if second.Length != 64 {
				second = n.up.Segment().Buffers[0]
			}
			require.Zero(t, u.move(t, "read", n.name(), 0, second.Addr, 64))
			require.NoError(t, n.tr.Deregister(t.Context(), 2))
			require.NotZero(t, u.move(t, "read", n.name(), 0, second.Addr, 64), "it still has the old descriptor")
			require.Zero(t, u.move(t, "read", n.name(), 0, n.addr(0), 64))

			d, err := n.dir.Lookup(t.Context(), u.name)
			require.NoError(t, err)
			ep, keys, err := n.up.Translate(transport.PeerSegment{Name: u.name, Host: "127.0.0.1", Segment: transport.Segment{
				Protocol: d.Protocol, DataPort: d.TCPDataPort, DataVersion: d.TCPProtoVersion,
				Buffers: []transport.Buffer{{Addr: u.addr, Length: 8192}},
			}})
			require.NoError(t, err)
			p, err := n.tr.Dial(t.Context(), ep)
			require.NoError(t, err)
			defer func() { require.NoError(t, p.Close(context.Background())) }()
			id, err := p.Import(t.Context(), keys[0])
			require.NoError(t, err)
			for _, kind := range []transport.OpKind{transport.Read, transport.Write} {
				bad := run(t, p, []transport.Op{{Kind: kind, Local: make([]byte, 4097), Remote: id}})[0]
				require.NotEqual(t, transport.OK, bad.Status)
				if s.env != "MC_TCP_PROTO=1" {
					require.Equal(t, transport.Failed, bad.Status)
					require.Equal(t, errs.ClassTransientPeer, bad.Class(), "%v", bad.Err)
				}
				ok(t, p, transport.Op{Kind: kind, Local: make([]byte, 4096), Remote: id})
			}
		})
	}
}

// TestKilledUpstream: a node that is killed in the middle fails what is in flight within
// the deadline, as a problem of the peer or the way to it.
func TestKilledUpstream(t *testing.T) {
	u, n := newUpstream(t, span), newNode(t, 64, `{"host":"127.0.0.1","op_timeout":"5s"}`)
	p, id := n.path(t, u.name)
	ops, buf := make([]transport.Op, 20), make([]byte, 64<<20)
	for i := range ops {
		ops[i] = transport.Op{ID: uint64(i), Kind: transport.Write, Local: buf, Remote: id}
	}
	open, err := p.Submit(ops)
	require.NoError(t, err)
	require.Positive(t, open)
	u.kill()
	dst := make([]transport.Completion, 64)
	failed := 0
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for open > 0 {
		got, err := p.Reap(ctx, dst)
		require.NoError(t, err)
		open -= got
		for _, c := range dst[:got] {
			if c.Status != transport.OK {
				failed++
				require.Contains(t, []errs.Class{errs.ClassTransientPath, errs.ClassTransientPeer}, c.Class(), "%v", c.Err)
			}
		}
	}
	require.Positive(t, failed)
}

// TestNotifyAndProbe in both directions, with a transfer and alone.
func TestNotifyAndProbe(t *testing.T) {
	u, n := newUpstream(t, 4096), newNode(t, 4096, `{"host":"127.0.0.1"}`)
	came := make(chan metadata.Notification, 4)
	n.dir.Daemon().SetNotifyHandler(func(_ context.Context, note metadata.Notification) error {
		came <- note
		return nil
	})
	want := u.fill(t, 0, 4096, 1)
	require.Zero(t, u.call(t, map[string]any{
		"call": "move", "op": "write", "target": n.name(), "offset": 0, "addr": n.addr(0), "size": 4096, "notify": []string{"them", "written"},
	}).RC)
	require.Equal(t, metadata.Notification{Name: "them", Message: "written"}, <-came)
	require.Equal(t, want, digest(n.mem), "the data was there before the message")

	require.NoError(t, n.dir.Notify(t.Context(), u.name, metadata.Notification{Name: "us", Message: fmt.Sprintf("%c ok", 'ä')}))
	require.Equal(t, [][2]string{{"us", "ä ok"}}, u.call(t, map[string]any{"call": "notes"}).Notes)

	require.NoError(t, n.dir.Probe(t.Context(), u.name))
	require.Zero(t, u.call(t, map[string]any{"call": "probe", "target": n.name()}).RC)
	require.NotZero(t, u.call(t, map[string]any{"call": "probe", "target": "127.0.0.1:1"}).RC)
	u.kill()
	require.Error(t, n.dir.Probe(t.Context(), u.name))
}

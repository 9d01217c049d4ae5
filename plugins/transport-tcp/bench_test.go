package tcp

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// quiet is the program around a transport in tests.
type quiet struct{}

func (quiet) Logger() *slog.Logger { return slog.New(slog.DiscardHandler) }
func (quiet) Report(plugin.Health) {}

// pair is a transport that serves a region and one with a path to it.
type pair struct {
	server, client *node
	mem            []byte
	key            transport.Key
	path           *path
	id             transport.RemoteID
}

func newPair(t testing.TB, size int, change ...func(*Config)) *pair {
	return newPairSeen(t, size, func(c net.Conn) net.Conn { return c }, change...)
}

// newPairSeen is newPair with something around every connection.
func newPairSeen(t testing.TB, size int, wrap func(net.Conn) net.Conn, change ...func(*Config)) *pair {
	cfg := loopback()
	for _, c := range change {
		c(cfg)
	}
	require.NoError(t, cfg.Validate())
	r := &pair{server: newNode(*cfg), client: newNode(*cfg), mem: make([]byte, size)}
	for _, n := range []*node{r.server, r.client} {
		n.wrap = wrap
		require.NoError(t, n.Start(context.Background(), quiet{}))
		t.Cleanup(func() { require.NoError(t, n.Stop(context.Background())) })
	}
	var err error
	r.key, err = r.server.Register(context.Background(), transport.Region{ID: 1, Mem: r.mem, FD: -1, Access: transport.AccessRemote})
	require.NoError(t, err)
	r.dial(t, r.server.Endpoint())
	return r
}

func (r *pair) dial(t testing.TB, ep transport.Endpoint) {
	p, err := r.client.Dial(context.Background(), ep)
	require.NoError(t, err)
	r.path = p.(*path)
	t.Cleanup(func() { require.NoError(t, p.Close(context.Background())) })
	r.id, err = p.Import(context.Background(), r.key)
	require.NoError(t, err)
}

// pump keeps depth operations of size bytes under way until count of them ended.
func (r *pair) pump(t testing.TB, kind transport.OpKind, local []byte, size, depth, count int) {
	dst := make([]transport.Completion, depth)
	ops := make([]transport.Op, 0, depth)
	free := make([]uint64, len(local)/size) // Pieces of local without an operation; the ID is the piece.
	for i := range free {
		free[i] = uint64(len(free) - 1 - i)
	}
	for sent, open, ended := 0, 0, 0; ended < count; {
		ops = ops[:0]
		for len(free) > 0 && sent+len(ops) < count && open+len(ops) < depth {
			id := free[len(free)-1]
			free = free[:len(free)-1]
			at := int(id) * size
			ops = append(ops, transport.Op{ID: id, Kind: kind, Local: local[at : at+size], Remote: r.id, Offset: uint64(at)})
		}
		n, err := r.path.Submit(ops)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range ops[n:] {
			free = append(free, o.ID)
		}
		sent, open = sent+n, open+n
		n, err = r.path.Reap(context.Background(), dst)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range dst[:n] {
			if c.Status != transport.OK {
				t.Fatal(c.Err)
			}
			free = append(free, c.ID)
		}
		open, ended = open-n, ended+n
	}
}

// BenchmarkTransport moves operations over loopback, both sides in this process.
func BenchmarkTransport(b *testing.B) {
	const span = 64 << 20
	for _, c := range []struct{ size, depth int }{{4 << 10, 1}, {4 << 10, 64}, {64 << 10, 1}, {64 << 10, 32}, {1 << 20, 1}, {1 << 20, 16}, {16 << 20, 2}} {
		for kind, name := range map[transport.OpKind]string{transport.Read: "read", transport.Write: "write"} {
			for _, sums := range []bool{false, true} {
				if sums && c.size != 1<<20 {
					continue
				}
				label := fmt.Sprintf("%s/size=%dK/depth=%d/crc=%v", name, c.size>>10, c.depth, sums)
				b.Run(label, func(b *testing.B) {
					r := newPair(b, span, func(c *Config) { c.Checksum = sums })
					local := make([]byte, span)
					r.pump(b, kind, local, c.size, c.depth, 4*c.depth)
					b.SetBytes(int64(c.size))
					b.ReportAllocs()
					b.ResetTimer()
					r.pump(b, kind, local, c.size, c.depth, b.N)
				})
			}
		}
	}
}

// BenchmarkRaw is the limit: plain connections that only stream, no framing and no
// answers, from memory into memory.
func BenchmarkRaw(b *testing.B) {
	for _, conns := range []int{1, 2, 4} {
		for _, size := range []int{64 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("size=%dK/conns=%d", size>>10, conns), func(b *testing.B) {
				raw(b, conns, size)
			})
		}
	}
}

func raw(b *testing.B, conns, size int) {
	const span = 64 << 20
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	defer func() { _ = ln.Close() }()
	from, to := make([]byte, span), make([]byte, span)
	b.SetBytes(int64(size))
	var wg sync.WaitGroup
	part := span / conns
	b.ResetTimer()
	for i := range conns {
		n := b.N / conns
		if i == 0 {
			n += b.N % conns
		}
		out, err := net.Dial("tcp", ln.Addr().String())
		require.NoError(b, err)
		in, err := ln.Accept()
		require.NoError(b, err)
		src, dst := from[i*part:(i+1)*part], to[i*part:(i+1)*part]
		wg.Go(func() {
			defer func() { _ = out.Close() }()
			for j := range n {
				at := j * size % part
				if _, err := out.Write(src[at : at+size]); err != nil {
					b.Error(err)
					return
				}
			}
		})
		wg.Go(func() {
			defer func() { _ = in.Close() }()
			for j := range n {
				at := j * size % part
				if _, err := io.ReadFull(in, dst[at:at+size]); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

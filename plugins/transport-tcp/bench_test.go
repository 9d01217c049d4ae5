package tcp

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// quiet is the program around a transport in tests.
type quiet struct{}

// secured is quiet with a security mode.
type secured struct {
	quiet
	settings security.Settings
	log      *slog.Logger
}

func (h secured) Security() security.Settings { return h.settings }
func (h secured) Logger() *slog.Logger {
	if h.log != nil {
		return h.log
	}
	return h.quiet.Logger()
}

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
	return newPairOf(t, size, wrap, [2]plugin.Host{quiet{}, quiet{}}, change...)
}

// newPairOf is newPairSeen with the hosts of server and client.
func newPairOf(t testing.TB, size int, wrap func(net.Conn) net.Conn, hosts [2]plugin.Host, change ...func(*Config)) *pair {
	cfg := loopback()
	for _, c := range change {
		c(cfg)
	}
	require.NoError(t, plugin.Validate(cfg))
	r := &pair{server: newNode(*cfg), client: newNode(*cfg), mem: make([]byte, size)}
	for i, n := range []*node{r.server, r.client} {
		n.wrap = wrap
		require.NoError(t, n.Start(context.Background(), hosts[i]))
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
	r.path.poll(func() bool { return true }) // What is short is sent by Submit, as under the engine.
	t.Cleanup(func() { require.NoError(t, p.Close(context.Background())) })
	r.id, err = p.Import(context.Background(), r.key)
	require.NoError(t, err)
}

// pump keeps depth operations of size bytes in flight until count of them ended.
func (r *pair) pump(t testing.TB, kind transport.OpKind, local []byte, size, depth, count int) {
	dst := make([]transport.Completion, depth)
	ops := make([]transport.Op, 0, depth)
	// The chunks of local without an operation, the one not used for longest first, so that
	// caches do not flatter; the ID is the chunk.
	chunks := len(local) / size
	free := make(chan uint64, chunks)
	for i := range chunks {
		free <- uint64(i)
	}
	for sent, open, ended := 0, 0, 0; ended < count; {
		ops = ops[:0]
		for len(free) > 0 && sent+len(ops) < count && open+len(ops) < depth {
			id := <-free
			at := int(id) * size
			ops = append(ops, transport.Op{ID: id, Kind: kind, Local: local[at : at+size], Remote: r.id, Offset: uint64(at)})
		}
		n, err := r.path.Submit(ops)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range ops[n:] {
			free <- o.ID
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
			free <- c.ID
		}
		open, ended = open-n, ended+n
	}
}

// BenchmarkTransport moves operations over loopback, both sides in this process.
func BenchmarkTransport(b *testing.B) {
	const span = 64 << 20
	for _, c := range []struct{ size, depth int }{{4 << 10, 1}, {4 << 10, 64}, {64 << 10, 1}, {64 << 10, 32}, {1 << 20, 1}, {1 << 20, 16}, {16 << 20, 2}} {
		for kind, name := range map[transport.OpKind]string{transport.Read: "read", transport.Write: "write"} {
			for _, checksums := range []bool{false, true} {
				if checksums && c.size != 1<<20 {
					continue
				}
				label := fmt.Sprintf("%s/size=%dK/depth=%d/crc=%v", name, c.size>>10, c.depth, checksums)
				b.Run(label, func(b *testing.B) {
					r := newPair(b, span, func(c *Config) { c.Checksum = checksums })
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

// BenchmarkAgainstRaw alternates between the transport and the limit of it: the same
// number of plain connections that only stream from memory into memory, no framing and
// no answers. Medians, so that a disturbed round does not count; the ratio of processor
// time is what to look at on a machine that does other things too.
func BenchmarkAgainstRaw(b *testing.B) {
	const span, conns = 64 << 20, 4
	for _, c := range []struct{ size, depth int }{{64 << 10, 32}, {1 << 20, 16}} {
		for kind, name := range map[transport.OpKind]string{transport.Read: "read", transport.Write: "write"} {
			b.Run(fmt.Sprintf("%s/size=%dK/depth=%d", name, c.size>>10, c.depth), func(b *testing.B) {
				r := newPair(b, span, func(cfg *Config) { cfg.ConnectionsPerPeer = conns })
				stream := newRaw(b, conns, span)
				local := make([]byte, span)
				ours := func() { r.pump(b, kind, local, c.size, c.depth, span/c.size) }
				limit := func() { stream.run(b, c.size) }
				ours()
				limit()
				var rate, rawRate, wall, cpu []float64
				for b.Loop() {
					t1, c1 := measure(ours)
					t2, c2 := measure(limit)
					rate, rawRate = append(rate, span/t1/1e9), append(rawRate, span/t2/1e9)
					wall, cpu = append(wall, t2/t1), append(cpu, c2/c1)
				}
				b.ReportMetric(median(rate), "GB/s")
				b.ReportMetric(median(rawRate), "raw-GB/s")
				b.ReportMetric(median(wall), "of-raw")
				b.ReportMetric(median(cpu), "of-raw-per-cpu")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// measure returns the seconds that f takes, on the clock and of the processors.
func measure(f func()) (wall, cpu float64) {
	used := func() float64 {
		var u syscall.Rusage
		if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
			return 0
		}
		return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
	}
	start, before := time.Now(), used()
	f()
	return time.Since(start).Seconds(), used() - before
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// rawStream is plain connections with memory at both ends.
type rawStream struct {
	out, in  []net.Conn
	from, to []byte
}

func newRaw(b *testing.B, conns, span int) *rawStream {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	defer func() { _ = ln.Close() }()
	s := &rawStream{from: make([]byte, span), to: make([]byte, span)}
	for range conns {
		out, err := net.Dial("tcp", ln.Addr().String())
		require.NoError(b, err)
		in, err := ln.Accept()
		require.NoError(b, err)
		b.Cleanup(func() { _, _ = out.Close(), in.Close() })
		s.out, s.in = append(s.out, out), append(s.in, in)
	}
	return s
}

// run streams all of from into to, in calls of size bytes.
func (s *rawStream) run(b *testing.B, size int) {
	var wg sync.WaitGroup
	part := len(s.from) / len(s.out)
	for i := range s.out {
		src, dst := s.from[i*part:][:part], s.to[i*part:][:part]
		wg.Go(func() {
			for at := 0; at < part; at += size {
				if _, err := s.out[i].Write(src[at : at+size]); err != nil {
					b.Error(err)
					return
				}
			}
		})
		wg.Go(func() {
			for at := 0; at < part; at += size {
				if _, err := io.ReadFull(s.in[i], dst[at:at+size]); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkSecured alternates between plaintext, TLS, and AES-128-GCM alone in records of 16 KiB: medians, of
// the clock and of processor time for both ends together. of-limit is TLS beside what plaintext, sealing and
// opening cost together.
func BenchmarkSecured(b *testing.B) {
	const span = 64 << 20
	for _, c := range []struct{ size, depth int }{{64 << 10, 1}, {64 << 10, 4}, {1 << 20, 1}, {1 << 20, 4}, {16 << 20, 1}, {16 << 20, 4}} {
		for kind, name := range map[transport.OpKind]string{transport.Read: "get", transport.Write: "put"} {
			b.Run(fmt.Sprintf("%s/size=%dK/depth=%d", name, c.size>>10, c.depth), func(b *testing.B) {
				plain, safe, local := newPair(b, span), securePair(b, span), make([]byte, span)
				run := func(r *pair) func() {
					return func() { r.pump(b, kind, local, c.size, c.depth, span/c.size) }
				}
				run(plain)()
				run(safe)()
				var rate, safeRate, work, safeWork, aes, ratio, limit []float64
				for b.Loop() {
					t1, c1 := measure(run(plain))
					t2, c2 := measure(run(safe))
					_, c3 := measure(func() { sealAndOpen(b, local) })
					rate, safeRate, ratio = append(rate, span/t1/1e9), append(safeRate, span/t2/1e9), append(ratio, t1/t2)
					work, safeWork, aes = append(work, span/c1/1e9), append(safeWork, span/c2/1e9), append(aes, 2*span/c3/1e9)
					limit = append(limit, (c1+c3)/c2)
				}
				b.ReportMetric(median(rate), "plain-GB/s")
				b.ReportMetric(median(safeRate), "GB/s")
				b.ReportMetric(median(ratio), "of-plain")
				b.ReportMetric(median(work), "plain-GB/cpu-s")
				b.ReportMetric(median(safeWork), "GB/cpu-s")
				b.ReportMetric(median(aes), "aes-GB/cpu-s")
				b.ReportMetric(median(limit), "of-limit-per-cpu")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// sealAndOpen encrypts and decrypts data as records of TLS do.
func sealAndOpen(t testing.TB, data []byte) {
	block, err := aes.NewCipher(make([]byte, 16))
	require.NoError(t, err)
	gcm, err := cipher.NewGCM(block)
	require.NoError(t, err)
	nonce, sealed, opened := make([]byte, gcm.NonceSize()), make([]byte, 0, 17<<10), make([]byte, 0, 17<<10)
	for i := 0; i < len(data); i += 16 << 10 {
		binary.LittleEndian.PutUint32(nonce, uint32(i))
		sealed = gcm.Seal(sealed[:0], nonce, data[i:i+16<<10], nil)
		if opened, err = gcm.Open(opened[:0], nonce, sealed, nil); err != nil {
			t.Fatal(err)
		}
	}
}

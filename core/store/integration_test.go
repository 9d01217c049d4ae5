package store_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	rpc "github.com/mooncake-go/mooncake/core/api/rpc/client"
	"github.com/mooncake-go/mooncake/core/api/rpc/server"
	"github.com/mooncake-go/mooncake/core/metadata/open"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/client"
	"github.com/mooncake-go/mooncake/core/store/node"
	"github.com/mooncake-go/mooncake/core/store/session"
	"github.com/mooncake-go/mooncake/core/transfer"
	quic "github.com/mooncake-go/mooncake/plugins/transport-quic"
	shm "github.com/mooncake-go/mooncake/plugins/transport-shm"
	tcp "github.com/mooncake-go/mooncake/plugins/transport-tcp"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// cluster is a master behind real gRPC, with members that talk real TCP over loopback and
// find each other by their handshake daemons.
type cluster struct {
	*pool
	addr string
}

func newCluster(t testing.TB) *cluster {
	c := &cluster{pool: newPool(t, nil)}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c.addr = ln.Addr().String()
	srv := server.New(c.master, server.Options{})
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := srv.Serve(ln); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		srv.Stop(ctx)
		wg.Wait()
	})
	return c
}

func (c *cluster) member(o memberOptions) *member {
	t := c.t
	t.Helper()
	ctx := context.Background()
	tr := transportOf(t, o.quic)
	require.NoError(t, tr.Start(ctx, host{}))
	dir, err := open.Open(ctx, open.P2PHandshake, open.Options{LocalName: "127.0.0.1", BindHost: "127.0.0.1", Logger: silent()})
	require.NoError(t, err)
	conn, err := rpc.Dial(c.addr, rpc.Options{})
	require.NoError(t, err)

	m := &member{name: dir.LocalName(), metrics: prometheus.NewRegistry(), kill: tr.Stop}
	ecfg := transfer.DefaultConfig()
	if o.engine != nil {
		o.engine(&ecfg)
	}
	carriers := []transfer.Carrier{{Name: "tcp", Transport: tr, LocalAny: true, Guards: true}}
	if o.shm {
		near, err := shm.Factory().New(shm.Factory().DefaultConfig())
		require.NoError(t, err)
		require.NoError(t, near.Start(ctx, host{}))
		t.Cleanup(func() { require.NoError(t, near.Stop(context.Background())) })
		carriers = append([]transfer.Carrier{{Name: "shm", Transport: near, LocalAny: true}}, carriers...)
	}
	m.engine, err = transfer.New(ecfg, transfer.Deps{Directory: dir, Log: silent(), Carriers: carriers})
	require.NoError(t, err)
	m.deps = session.Deps{ID: model.NewUUID(), Master: conn, Engine: m.engine, Log: silent(), Metrics: m.metrics}
	m.session, err = session.New(session.Config{PingInterval: 50 * time.Millisecond, MaxPingInterval: 100 * time.Millisecond, MasterDownTimeout: 10 * time.Second}, m.deps)
	require.NoError(t, err)
	m.deps.Session = m.session
	scfg := client.DefaultConfig()
	if o.client != nil {
		o.client(&scfg)
	}
	m.Client, err = client.New(scfg, m.deps)
	require.NoError(t, err)
	if len(o.segments) > 0 {
		ncfg := node.DefaultConfig()
		ncfg.Segments = o.segments
		if o.node != nil {
			o.node(&ncfg)
		}
		m.node, err = node.New(ncfg, m.deps)
		require.NoError(t, err)
		require.NoError(t, m.node.Start(ctx))
	}
	m.stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(t, m.Client.Close(ctx))
		if m.node != nil {
			require.NoError(t, m.node.Stop(ctx))
		}
		m.session.Close()
		require.NoError(t, m.engine.Close(ctx))
		require.NoError(t, tr.Stop(ctx))
		require.NoError(t, dir.Close(ctx))
		require.NoError(t, conn.Close())
	})
	t.Cleanup(m.stop)
	return m
}

// transportOf makes a transport that listens on this machine.
func transportOf(t testing.TB, overQUIC bool) transport.Transport {
	if overQUIC {
		cfg := quic.DefaultConfig()
		cfg.Host, cfg.InsecureDev, cfg.SocketBuffer = "127.0.0.1", true, 0
		tr, err := quic.Factory().New(cfg)
		require.NoError(t, err)
		return tr
	}
	cfg := tcp.DefaultConfig()
	cfg.Host = "127.0.0.1"
	tr, err := tcp.Factory().New(cfg)
	require.NoError(t, err)
	return tr
}

// TestOverTCPAndGRPC is the whole way: several clients put and get pages at once on two
// nodes, every byte is compared, and nothing goes through a buffer of ours.
func TestOverTCPAndGRPC(t *testing.T) {
	c := newCluster(t)
	c.member(memberOptions{segments: []uint64{2 * segment}})
	n := c.member(memberOptions{segments: []uint64{2 * segment}})
	workers := []*member{n, c.member(memberOptions{}), c.member(memberOptions{})}
	var wg sync.WaitGroup
	for w, m := range workers {
		wg.Go(func() {
			var keys []string
			var values, dst [][]byte
			for i := range 8 {
				k := fmt.Sprintf("worker%d/page%d", w, i)
				keys, values = append(keys, k), append(values, content(k, 300_000+i))
				dst = append(dst, make([]byte, 300_000+i))
			}
			for _, err := range m.BatchPut(t.Context(), keys, values, two()) {
				if err != nil {
					t.Error(err)
				}
			}
			for i, r := range m.BatchGetInto(t.Context(), keys, dst) {
				if r.Err != nil || string(dst[i][:r.Value]) != string(values[i]) {
					t.Errorf("%s: %v", keys[i], r.Err)
				}
			}
		})
	}
	wg.Wait()
	big := content("big", 20<<20+7)
	require.NoError(t, workers[1].Put(t.Context(), "big", big, one))
	for _, m := range workers {
		got, err := m.Get(t.Context(), "big")
		require.NoError(t, err)
		require.Equal(t, big, got)
		require.Zero(t, m.count(t, "mooncake_client_staged_bytes_total"))
	}
}

// TestKilledNodeOverTCP: the pages of a node that dies are misses, the others are there.
func TestKilledNodeOverTCP(t *testing.T) {
	c := newCluster(t)
	a := c.member(memberOptions{segments: []uint64{segment}})
	b := c.member(memberOptions{segments: []uint64{segment}})
	r := c.member(memberOptions{engine: func(c *transfer.Config) { c.SliceTimeout = 10 * time.Second }})
	on := func(m *member, key string) {
		cfg := one
		cfg.PreferredSegments = []string{m.name}
		require.NoError(t, r.Put(t.Context(), key, content(key, 100_000), cfg))
	}
	on(a, "on a")
	on(b, "on b")
	// The transport goes first, as with kill -9; the master does not know.
	require.NoError(t, a.kill(t.Context()))
	for range 5 {
		_, err := r.Get(t.Context(), "on a")
		require.True(t, store.IsMiss(err), "%v", err)
		got, err := r.Get(t.Context(), "on b")
		require.NoError(t, err)
		require.Equal(t, content("on b", 100_000), got)
	}
}

// BenchmarkTCP moves pages of 1 MiB over loopback. Compare with BenchmarkRawLoopback.
func BenchmarkTCP(b *testing.B) {
	const size, batch = 1 << 20, 16
	for _, sum := range []bool{true, false} {
		c := newCluster(b)
		c.member(memberOptions{segments: []uint64{256 << 20}, node: func(c *node.Config) { c.Prefault = true }})
		m := c.member(memberOptions{client: withChecksum(sum)})
		ctx := context.Background()
		keys := make([]string, batch)
		values, dst := make([][]byte, batch), make([][]byte, batch)
		for i := range batch {
			keys[i] = fmt.Sprint("k", i)
			values[i], dst[i] = content(keys[i], size), make([]byte, size)
		}
		require.NoError(b, m.BatchPut(ctx, keys, values, one)[0])
		b.Run(fmt.Sprintf("get/batch=1/checksum=%v", sum), func(b *testing.B) {
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := m.GetInto(ctx, keys[0], dst[0]); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("get/batch=16/checksum=%v", sum), func(b *testing.B) {
			b.SetBytes(size * batch)
			for b.Loop() {
				for _, r := range m.BatchGetInto(ctx, keys, dst) {
					if r.Err != nil {
						b.Fatal(r.Err)
					}
				}
			}
		})
		b.Run(fmt.Sprintf("put/batch=16/checksum=%v", sum), func(b *testing.B) {
			b.SetBytes(size * batch)
			n := 0
			for b.Loop() {
				n++
				ks := make([]string, batch)
				for i := range ks {
					ks[i] = fmt.Sprint("p", n, "/", i)
				}
				for _, err := range m.BatchPut(ctx, ks, values, one) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// BenchmarkRawLoopback is the bound: one stream, and as many as a path has connections,
// with plain reads and writes of 1 MiB and sender and receiver in this process.
func BenchmarkRawLoopback(b *testing.B) {
	for _, streams := range []int{1, 4} {
		b.Run(fmt.Sprint("streams=", streams), func(b *testing.B) { rawLoopback(b, streams) })
	}
}

func rawLoopback(b *testing.B, streams int) {
	const size = 1 << 20
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	defer ln.Close() //nolint:errcheck // Nothing depends on it.
	var wg sync.WaitGroup
	var out []net.Conn
	for range streams {
		conn, err := net.Dial("tcp", ln.Addr().String())
		require.NoError(b, err)
		in, err := ln.Accept()
		require.NoError(b, err)
		out = append(out, conn)
		wg.Go(func() {
			buf := make([]byte, size)
			for {
				if _, err := in.Read(buf); err != nil {
					in.Close() //nolint:errcheck // The other side closed.
					return
				}
			}
		})
	}
	b.SetBytes(int64(size * streams))
	b.ResetTimer()
	var send sync.WaitGroup
	for _, conn := range out {
		send.Go(func() {
			buf := make([]byte, size)
			for range b.N {
				if _, err := conn.Write(buf); err != nil {
					b.Error(err)
				}
			}
			conn.Close() //nolint:errcheck // The end of the stream.
		})
	}
	send.Wait()
	wg.Wait()
}

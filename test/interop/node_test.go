package interop

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/cmd/mooncake/builtin"
	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/metadata/p2p"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// host is the program around a transport: it drops logs and health.
type host struct{}

func (host) Logger() *slog.Logger { return slog.New(slog.DiscardHandler) }
func (host) Report(plugin.Health) {}

// node is one of ours, as far as a peer of upstream sees it: a handshake daemon, a
// transport, and one registered region.
type node struct {
	dir *p2p.Directory
	tr  transport.Transport
	up  transport.Upstream
	mem []byte
}

// newNode starts one with a region of size bytes. config is JSON over the defaults.
func newNode(t testing.TB, size int, config string) *node {
	n := newBare(t, config)
	n.mem = make([]byte, size)
	_, err := n.tr.Register(t.Context(), transport.Region{ID: 1, Mem: n.mem, FD: -1, Access: transport.AccessRemote})
	require.NoError(t, err)
	n.publish(t)
	return n
}

// newBare starts one that has published nothing yet.
func newBare(t testing.TB, config string) *node {
	dir, err := p2p.Open(t.Context(), p2p.Options{LocalName: "127.0.0.1", Daemon: p2p.DaemonOptions{BindHost: "127.0.0.1"}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, dir.Close(context.Background())) })
	n := &node{dir: dir, tr: startTransport(t, "transport/tcp", config)}
	var ok bool
	n.up, ok = transport.As[transport.Upstream](n.tr)
	require.True(t, ok)
	n.up.Join(dir.LocalName())
	return n
}

// startTransport starts one that speaks with nodes of upstream until the test ends.
func startTransport(t testing.TB, id, config string) transport.Transport {
	plugins := builtin.Plugins()
	i := slices.IndexFunc(plugins, func(f plugin.Factory) bool { return f.Manifest().ID.String() == id })
	require.GreaterOrEqual(t, i, 0, "%s is not linked in", id)
	f := plugins[i].(transport.Factory)
	require.True(t, f.Manifest().Has(transport.CapUpstream))
	cfg := f.DefaultConfig()
	require.NoError(t, json.Unmarshal([]byte(config), cfg))
	require.NoError(t, cfg.Validate())
	tr, err := f.New(cfg)
	require.NoError(t, err)
	require.NoError(t, tr.Start(t.Context(), host{}))
	t.Cleanup(func() { require.NoError(t, tr.Stop(context.Background())) })
	return tr
}

func (n *node) publish(t testing.TB) {
	s := n.up.Segment()
	d := &metadata.Descriptor{
		Name: n.dir.LocalName(), Protocol: s.Protocol, TCPDataPort: s.DataPort, TCPProtoVersion: s.DataVersion,
		Timestamp: metadata.Timestamp(time.Now()),
	}
	for _, b := range s.Buffers {
		d.Buffers = append(d.Buffers, metadata.Buffer{Name: b.Name, Addr: b.Addr, Length: b.Length})
	}
	require.NoError(t, n.dir.Publish(t.Context(), d))
}

func (n *node) name() string { return n.dir.LocalName() }

// addr is the address of a part of the region.
func (n *node) addr(offset int) uint64 {
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(n.mem)))) + uint64(offset)
}

// path dials a node of upstream by name and imports its first buffer.
func (n *node) path(t testing.TB, name string) (transport.Path, transport.RemoteID) {
	d, err := n.dir.Lookup(t.Context(), name)
	require.NoError(t, err)
	at, err := n.dir.Address(t.Context(), name)
	require.NoError(t, err)
	peer := transport.PeerSegment{Name: d.Name, Host: at.Host, Port: at.Port, Segment: transport.Segment{
		Protocol: d.Protocol, DataPort: d.TCPDataPort, DataVersion: d.TCPProtoVersion,
	}}
	for _, b := range d.Buffers {
		peer.Buffers = append(peer.Buffers, transport.Buffer{Name: b.Name, Addr: b.Addr, Length: b.Length})
	}
	require.NotEmpty(t, peer.Buffers)
	ep, keys, err := n.up.Translate(peer)
	require.NoError(t, err)
	p, err := n.tr.Dial(t.Context(), ep)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close(context.Background())) })
	id, err := p.Import(t.Context(), keys[0])
	require.NoError(t, err)
	return p, id
}

// run brings operations to their end and returns the completions in the order of the IDs
// 0, 1, ...
func run(t testing.TB, p transport.Path, ops []transport.Op) []transport.Completion {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out := make([]transport.Completion, len(ops))
	dst := make([]transport.Completion, 64)
	for open := 0; len(ops) > 0 || open > 0; {
		n, err := p.Submit(ops)
		require.NoError(t, err)
		ops, open = ops[n:], open+n
		n, err = p.Reap(ctx, dst)
		require.NoError(t, err)
		for _, c := range dst[:n] {
			out[c.ID] = c
		}
		open -= n
	}
	return out
}

func ok(t testing.TB, p transport.Path, ops ...transport.Op) {
	t.Helper()
	for i := range ops {
		ops[i].ID = uint64(i)
	}
	for _, c := range run(t, p, ops) {
		require.Equal(t, transport.OK, c.Status, "%v", c.Err)
	}
}

// soon is a deadline for what is expected to fail before it.
func soon() time.Time { return time.Now().Add(patience) }

func random(b []byte, seed int) {
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	_, _ = r.Read(b)
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

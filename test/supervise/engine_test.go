package supervise

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/cmd/mooncake/builtin"
	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/core/pluginhost/launch/sandbox"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// board is a directory that the nodes of a test share.
type board struct {
	mu      sync.Mutex
	entries map[string][]byte
}

type view struct {
	b    *board
	name string
}

func (v view) LocalName() string { return v.name }

func (v view) Publish(_ context.Context, d *metadata.Descriptor) error {
	text, err := metadata.EncodeDescriptor(d)
	v.b.mu.Lock()
	defer v.b.mu.Unlock()
	v.b.entries[v.name] = text
	return err
}

func (v view) Lookup(_ context.Context, name string) (*metadata.Descriptor, error) {
	v.b.mu.Lock()
	defer v.b.mu.Unlock()
	text, ok := v.b.entries[name]
	if !ok {
		return nil, metadata.ErrNotFound
	}
	return metadata.DecodeDescriptor(text)
}

func (v view) Withdraw(context.Context) error { return nil }

func (v view) Close(context.Context) error { return nil }

// node is an engine over the plugin in a process of its own and, after it, one linked in.
type node struct {
	*transfer.Engine
	catalog *pluginhost.Catalog
	name    string
	mem     []byte
}

const open = 1 << 20 // bytes of each node that are open to peers

func (b *board) node(t *testing.T, name string, standby bool) *node {
	t.Helper()
	n := &node{name: name}
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	var err error
	n.catalog, err = pluginhost.New(builtin.Plugins(), pluginhost.Options{Dirs: []string{dir}, Logger: log, Sandbox: sandbox.ModeAuto})
	require.NoError(t, err)
	bounds := quick()
	// No limit may end what should end by itself: the engine says when peers can find a
	// process, and what is in flight completes.
	bounds.PublishGrace, bounds.DrainTimeout, bounds.StopTimeout = time.Hour, time.Hour, time.Minute
	deps := transfer.Deps{Directory: view{b, name}, Log: log}
	add := func(name string, mode pluginhost.Mode, config map[string]any) {
		x, err := n.catalog.OpenTransport(t.Context(), plugin.ID{Kind: "transport", Name: name}, pluginhost.Spec{Mode: mode, Config: config},
			pluginhost.TransportOptions{Supervision: bounds})
		require.NoError(t, err)
		require.NoError(t, x.Start(t.Context(), nil))
		deps.Carriers = append(deps.Carriers, transfer.Carrier{Name: name, Transport: x, LocalAny: true})
	}
	add("faulty", pluginhost.ModeSubprocess, nil)
	if standby {
		add("tcp", pluginhost.ModeInProcess, map[string]any{"host": "127.0.0.1"})
	}
	cfg := transfer.DefaultConfig()
	cfg.SliceSize, cfg.SliceTimeout, cfg.Timeout = 64<<10, time.Minute, 2*time.Minute
	n.Engine, err = transfer.New(cfg, deps)
	require.NoError(t, err)
	block, err := memory.Allocate(2*open, memory.Options{})
	require.NoError(t, err)
	n.mem = block.Bytes()
	_, err = n.Register(t.Context(), transfer.BlockMemory(block, transport.AccessRemote))
	require.NoError(t, err)
	require.NoError(t, n.Publish(t.Context()))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		assert.NoError(t, n.Close(ctx))
		assert.NoError(t, n.catalog.Close(ctx))
		assert.NoError(t, block.Close())
	})
	return n
}

func (n *node) pid() int { return n.catalog.Instances()[0].PID }

// load writes and reads between two nodes until halt and compares. Each range has one user. It
// returns how many rounds were made and how many requests failed with an indeterminate result; any
// other failure is an error of the test.
func load(t *testing.T, from, to *node, users int, halt <-chan struct{}) (rounds, indeterminate *atomic.Int64, wait func()) {
	t.Helper()
	rounds, indeterminate = new(atomic.Int64), new(atomic.Int64)
	var all sync.WaitGroup
	share := open / users
	for u := range users {
		all.Go(func() {
			off := open + u*share // The upper half of either node belongs to the users of one direction.
			mine, theirs := from.mem[off:][:share/2], memory.AddrOf(to.mem)+uint64(u*share)
			back := from.mem[off+share/2:][:share/2]
			for seed := byte(0); ; seed++ {
				select {
				case <-halt:
					return
				default:
				}
				pattern(mine, seed)
				once := func(kind transport.OpKind, local []byte) error {
					return from.Transfer(context.Background(), []transfer.Request{{Kind: kind, Local: local, Peer: to.name, Addr: theirs}})[0].Err
				}
				err := once(transport.Write, mine)
				if err == nil {
					clear(back)
					if err = once(transport.Read, back); err == nil {
						assert.True(t, bytes.Equal(mine, back), "other bytes came back")
						rounds.Add(1)
						continue
					}
				}
				if !errors.Is(err, transfer.ErrQuarantined) {
					assert.NoError(t, err)
					return
				}
				// The range stays unused from now on: this user is done.
				indeterminate.Add(1)
				return
			}
		})
	}
	return rounds, indeterminate, all.Wait
}

// TestEngineGoesOnWhileItsPluginIsKilled checks that requests take the next transport at once, and
// the plugin's again after its restart. A write that the plugin's process had accepted is reported
// as indeterminate; nothing else fails.
func TestEngineGoesOnWhileItsPluginIsKilled(t *testing.T) {
	b := &board{entries: map[string][]byte{}}
	a, peer := b.node(t, "a", true), b.node(t, "b", true)
	slices := func(name string) (n uint64) {
		for _, l := range a.Paths() {
			if l.Transport == name {
				n += l.Rails[0].Slices
			}
		}
		return n
	}
	halt := make(chan struct{})
	rounds, indeterminate, wait := load(t, a, peer, 8, halt)
	for range 3 {
		before, pid := slices("faulty"), a.pid()
		eventually(t, "the plugin is used", func() bool { return slices("faulty") > before || indeterminate.Load() == 8 })
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		eventually(t, "another process", func() bool { p := a.pid(); return p != 0 && p != pid })
	}
	close(halt)
	wait()
	assert.Positive(t, rounds.Load())
	local := a.mem[:64]
	read := func() error {
		return a.Transfer(t.Context(), []transfer.Request{{Kind: transport.Read, Local: local, Peer: "b", Addr: memory.AddrOf(peer.mem) + open}})[0].Err
	}
	eventually(t, "the plugin is used again", func() bool {
		before := slices("faulty")
		require.NoError(t, read())
		return slices("faulty") > before
	})
}

// TestEnginesDoNotNoticeAReload reloads the plugin of one engine. Neither this engine nor its peers
// notice: peers find the new keys in the directory, and not even writes are indeterminate.
func TestEnginesDoNotNoticeAReload(t *testing.T) {
	b := &board{entries: map[string][]byte{}}
	a, peer := b.node(t, "a", false), b.node(t, "b", false)
	halt := make(chan struct{})
	rounds, indeterminate, wait := load(t, a, peer, 4, halt)
	reload := func(nodes ...*node) {
		before := rounds.Load()
		var reloads sync.WaitGroup
		for _, n := range nodes {
			reloads.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				_, err := n.catalog.Reload(ctx, faulty)
				assert.NoError(t, err)
				assert.NoError(t, ctx.Err(), "the old process goes on and on")
			})
		}
		reloads.Wait()
		eventually(t, "it goes on", func() bool { return rounds.Load() > before+4 || indeterminate.Load() > 0 || t.Failed() })
	}
	for range 3 {
		reload(a)
		reload(peer)
	}
	reload(a, peer)
	close(halt)
	wait()
	assert.Zero(t, indeterminate.Load())
}

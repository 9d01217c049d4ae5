package supervise

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/cmd/mooncake/builtin"
	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/core/pluginhost/launch/sandbox"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/test/internal/programs"
)

var (
	faulty = plugin.ID{Kind: plugin.KindTransport, Name: "faulty"}
	dir    string // with the built plugin
)

// asHost makes the test binary a host that opens the plugin and waits.
const asHost = "MOONCAKE_SUPERVISE_TEST_HOST"

func TestMain(m *testing.M) {
	if at := os.Getenv(asHost); at != "" {
		beHost(at)
	}
	var err error
	if dir, err = os.MkdirTemp("", "supervise"); err == nil {
		err = build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

func build(dir string) error {
	out := filepath.Join(dir, faulty.BinaryName())
	if err := programs.Build(nil, "-ldflags=-s -w", "-tags=mooncake_no_transport_rdma,mooncake_no_transport_quic", "-o", out, "./test/supervise/faulty"); err != nil {
		return err
	}
	return os.Chmod(out, 0o755)
}

// quick makes restarts so fast that tests can wait for them, and so many that none is the last.
func quick() pluginhost.Supervision {
	return pluginhost.Supervision{
		BackoffMin: time.Millisecond, BackoffMax: 5 * time.Millisecond, MaxRestarts: 1000, Window: time.Hour, StartTimeout: time.Minute,
		PublishGrace: time.Millisecond,
	}
}

// rig is a plugin process, and a peer in this process.
type rig struct {
	t       *testing.T
	catalog *pluginhost.Catalog
	plugin  transport.Transport
	peer    transport.Transport
	log     *record
}

// record is a log for several writers.
type record struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.Write(p)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.String()
}

func newRig(t *testing.T, folder string, b pluginhost.Supervision, settings map[string]any) *rig {
	t.Helper()
	r := &rig{t: t, log: &record{}}
	before := openFiles(t)
	log := slog.New(slog.NewTextHandler(r.log, nil))
	var err error
	r.catalog, err = pluginhost.New(builtin.Plugins(), pluginhost.Options{Dirs: []string{folder}, Logger: log, Sandbox: sandbox.ModeAuto})
	require.NoError(t, err)
	r.plugin, err = r.catalog.OpenTransport(t.Context(), faulty, pluginhost.Spec{Config: settings, Write: []string{filepath.Dir(t.TempDir())}}, pluginhost.TransportOptions{Supervision: b})
	require.NoError(t, err)
	require.NoError(t, r.plugin.Start(t.Context(), nil))
	r.peer, err = r.catalog.OpenTransport(t.Context(), plugin.ID{Kind: "transport", Name: "tcp"},
		pluginhost.Spec{Mode: pluginhost.ModeInProcess, Config: map[string]any{"host": "127.0.0.1"}}, pluginhost.TransportOptions{})
	require.NoError(t, err)
	require.NoError(t, r.peer.Start(t.Context(), nil))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := r.catalog.Close(ctx); settings["ignore_stop"] == nil {
			assert.NoError(t, err)
		}
		eventually(t, "no descriptor is left open", func() bool { return openFiles(t) <= before })
		if t.Failed() {
			t.Log(r.log.String())
		}
	})
	return r
}

func openFiles(t *testing.T) int {
	list, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(list)
}

// instance is the state of the plugin.
func (r *rig) instance() pluginhost.Instance {
	for _, in := range r.catalog.Instances() {
		if in.ID() == faulty {
			return in
		}
	}
	return pluginhost.Instance{}
}

func (r *rig) pid() int { return r.instance().PID }

// memory maps shared memory and registers it.
func memoryOf(t *testing.T, at transport.Transport, id transport.RegionID, size int) ([]byte, transport.Key) {
	t.Helper()
	b, err := memory.Allocate(uint64(size), memory.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.Close() })
	key, err := at.Register(t.Context(), transport.Region{ID: id, Mem: b.Bytes()[:size], FD: b.FD(), FDOffset: b.Offset(), Access: transport.AccessRemote})
	require.NoError(t, err)
	return b.Bytes()[:size], key
}

// dial makes a path from the plugin to memory of the peer.
func (r *rig) dial(key transport.Key) (transport.Path, transport.RemoteID) {
	r.t.Helper()
	p, err := r.plugin.Dial(r.t.Context(), r.peer.Endpoint())
	require.NoError(r.t, err)
	id, err := p.Import(r.t.Context(), key)
	require.NoError(r.t, err)
	return p, id
}

// reapAll reaps n operations, each of which must complete once.
func reapAll(t *testing.T, p transport.Path, n int) map[uint64]transport.Completion {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out := map[uint64]transport.Completion{}
	dst := make([]transport.Completion, 16)
	for len(out) < n {
		k, err := p.Reap(ctx, dst)
		require.NoError(t, err, "after %d of %d", len(out), n)
		for _, c := range dst[:k] {
			require.NotContains(t, out, c.ID, "completed twice")
			out[c.ID] = c
		}
	}
	return out
}

// move repeats operations until all of them have succeeded, as a caller with retries does.
func move(t *testing.T, p transport.Path, ops []transport.Op) {
	t.Helper()
	limit := time.Now().Add(time.Minute)
	for len(ops) > 0 && time.Now().Before(limit) {
		n, err := p.Submit(ops)
		if n == 0 {
			if err != nil {
				require.NotErrorIs(t, err, transport.ErrPathClosed)
			}
			time.Sleep(time.Millisecond)
			continue
		}
		got := reapAll(t, p, n)
		again := append([]transport.Op(nil), ops[n:]...)
		for _, op := range ops[:n] {
			if got[op.ID].Status != transport.OK {
				again = append(again, op)
			}
		}
		ops = again
	}
	require.Empty(t, ops, "not carried out within a minute")
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	require.Eventually(t, f, time.Minute, 2*time.Millisecond, what)
}

func pattern(mem []byte, seed byte) {
	for i := range mem {
		mem[i] = seed + byte(i*7)
	}
}

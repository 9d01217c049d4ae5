// Package subprocess runs transports as programs of their own, as a host does, and measures
// what that costs beside the same transport in process.
package subprocess

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/pluginhost/launch"
	tcp "github.com/mooncake-go/mooncake/plugins/transport-tcp"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/transportwire"
	"github.com/mooncake-go/mooncake/sdk/x/shm"
)

// patience bounds every wait; reaching it is a failure.
const patience = time.Minute

// folder is the folder with the plugins.
var folder string

func TestMain(m *testing.M) {
	if os.Getenv(echoEnv) != "" {
		if err := echoChild(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "subprocess")
	if err == nil {
		defer os.RemoveAll(dir)
		folder = dir
		build := exec.Command("go", "build", "-o", dir+"/",
			"../../plugins/transport-tcp/cmd/mooncake-plugin-transport-tcp", "../../plugins/transport-shm/cmd/mooncake-plugin-transport-shm")
		build.Stdout, build.Stderr = os.Stderr, os.Stderr
		err = build.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

type host struct{}

func (host) Logger() *slog.Logger { return slog.New(slog.DiscardHandler) }
func (host) Report(plugin.Health) {}

func within(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	tb.Cleanup(cancel)
	return ctx
}

// launched is a transport in a process of its own.
type launched struct {
	*transportwire.Client
	proc *launch.Process
}

// start launches a transport, configures and starts it.
func start(tb testing.TB, name, settings string) *launched {
	tb.Helper()
	p, err := launch.Start(within(tb), launch.Options{
		Path: filepath.Join(folder, "mooncake-plugin-transport-"+name), ID: plugin.ID{Kind: "transport", Name: name}, API: transport.API(),
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	require.NoError(tb, err)
	l := &launched{Client: p.Client().(*transportwire.Client), proc: p}
	tb.Cleanup(func() {
		_ = l.Stop(within(tb))
		require.NoError(tb, p.Close(within(tb)))
		<-p.Done()
		l.Ended()
	})
	require.NoError(tb, l.Configure(within(tb), p.API(), []byte(settings)))
	require.NoError(tb, l.Start(within(tb), host{}))
	return l
}

// inProcess is the same transport in this process.
func inProcess(tb testing.TB) transport.Transport {
	c := tcp.DefaultConfig()
	c.Host = "127.0.0.1"
	tr, err := tcp.Factory().New(c)
	require.NoError(tb, err)
	require.NoError(tb, tr.Start(within(tb), host{}))
	tb.Cleanup(func() { require.NoError(tb, tr.Stop(within(tb))) })
	return tr
}

const onLoopback = `{"host": "127.0.0.1"}`

// memory is shared memory, registered.
func memory(tb testing.TB, tr transport.Transport, id transport.RegionID, size int, access transport.Access) ([]byte, transport.Key) {
	m, err := shm.Create("test", size)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, m.Close()) })
	for i := range m.Bytes() {
		m.Bytes()[i] = byte(i * 7)
	}
	key, err := tr.Register(within(tb), transport.Region{ID: id, Mem: m.Bytes(), FD: m.FD(), Location: "*", Access: access})
	require.NoError(tb, err)
	return m.Bytes(), key
}

// connect dials and imports.
func connect(tb testing.TB, from, to transport.Transport, key transport.Key) (transport.Path, transport.RemoteID) {
	p, err := from.Dial(within(tb), to.Endpoint())
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = p.Close(within(tb)) })
	id, err := p.Import(within(tb), key)
	require.NoError(tb, err)
	return p, id
}

// reap takes one batch of completions, all of which must be OK.
func reap(tb testing.TB, ctx context.Context, p transport.Path, dst []transport.Completion) int {
	n, err := p.Reap(ctx, dst)
	if err != nil {
		tb.Fatal(err)
	}
	for _, c := range dst[:n] {
		if c.Status != transport.OK {
			tb.Fatal(c.Err)
		}
	}
	return n
}

func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

package uds

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/transporttest"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		os.Exit(play(role))
	}
	goleak.VerifyTestMain(m)
}

// private returns a folder whose path is short enough for sockets.
func private(t conformance.TB) string {
	dir, err := os.MkdirTemp("", "uds")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// options are what the suite cannot know of this transport.
func options(t testing.TB, change func(*Config)) []transporttest.Option {
	dir := private(t)
	return []transporttest.Option{
		transporttest.WithConfig(func() plugin.Config {
			c := DefaultConfig()
			c.Folder, c.MaxInflightBytes = dir, 4<<20
			change(c)
			return c
		}),
		transporttest.WithLimit(4 << 20),
		transporttest.WithFrozen(frozen),
		// Each start listens at a socket of its own.
		transporttest.WithRestart(func(c plugin.Config, _ transport.Endpoint) plugin.Config { return c }),
	}
}

func TestConformance(t *testing.T) {
	transporttest.Run(t, Factory(), options(t, func(*Config) {})...)
}

// TestConformanceThroughTheWire runs the suite as a host does whose plugin is in another process:
// operations arrive through rings in shared memory, and regions as descriptors. The settings make
// most operations run one after the other.
func TestConformanceThroughTheWire(t *testing.T) {
	transporttest.Run(t, transporttest.ThroughWire(t, Factory(), transporttest.WireOptions{}),
		append(options(t, func(c *Config) { c.ConnectionsPerPeer, c.SliceBytes = 1, 16<<10 }),
			transporttest.WithSharedMemory(transporttest.SealedMemory))...)
}

// frozen returns an endpoint that accepts connections and never sends a byte.
func frozen(t conformance.TB, live transport.Endpoint) transport.Endpoint {
	e, err := decodeEndpoint(live.Blob)
	if err != nil {
		t.Fatal(err)
	}
	e.Socket = filepath.Join(private(t), socketName(e.Incarnation))
	ln, err := net.Listen("unix", e.Socket)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			defer c.Close() //nolint:gocritic,revive // All of them are closed at the end.
		}
	}()
	t.Cleanup(func() { _ = ln.Close(); <-done })
	return transport.Endpoint{Blob: e.encode(), Incarnation: e.Incarnation}
}

const long = 30 * time.Second // No test takes that long unless something is broken.

package rdma

import (
	"net"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/blob"
	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/transporttest"
	"github.com/mooncake-go/mooncake/test/fakeverbs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// onDevices reports whether the tests run where there are RDMA devices, as in test/rdma-vm.
func onDevices() bool { return os.Getenv("RDMA_VM") != "" }

// library returns a function that makes configurations for the devices of a world of its
// own, or for the real ones.
func library(t testing.TB, devices int) (func() *Config, *fakeverbs.World) {
	base := func() *Config {
		c := DefaultConfig()
		c.Host = "127.0.0.1"
		return c
	}
	if onDevices() {
		return base, nil
	}
	w := fakeverbs.New(t, fakeverbs.Config{Devices: devices})
	return func() *Config {
		c := base()
		c.Library = w.Path()
		return c
	}, w
}

func TestConformance(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"defaults": func(*Config) {},
		"small":    func(c *Config) { c.SliceBytes, c.QPPerEndpoint, c.MaxWR, c.WindowBytes = 4096, 1, 4, 16<<10 },
		"many queue pairs, small registrations": func(c *Config) {
			c.QPPerEndpoint, c.CQDepth, c.MaxMRSize, c.SignalEvery = 7, 600, 256<<10, 3
		},
	} {
		t.Run(name, func(t *testing.T) {
			config, w := library(t, 2)
			transporttest.Run(t, Factory(),
				transporttest.WithConfig(func() plugin.Config {
					c := config()
					change(c)
					return c
				}),
				transporttest.WithLimit(4<<20),
				transporttest.WithFrozen(frozen),
				transporttest.WithDeviceDown(func(t conformance.TB, device string) func() { return takeDown(t, w, device) }),
				transporttest.WithRestart(func(cfg plugin.Config, ep transport.Endpoint) plugin.Config {
					e, err := blob.DecodeEndpoint(ep.Blob)
					require.NoError(t, err)
					_, port, err := net.SplitHostPort(e.Addrs[0])
					require.NoError(t, err)
					cfg.(*Config).Port, err = strconv.Atoi(port)
					require.NoError(t, err)
					return cfg
				}))
		})
	}
}

// takeDown takes the port of a device down. What it returns brings it up again.
func takeDown(t conformance.TB, w *fakeverbs.World, device string) (up func()) {
	if w == nil {
		link := "rdma" + device[len(device)-1:] // The interface of rxe0 is rdma0.
		ip := func(state string) {
			out, err := exec.Command("ip", "link", "set", link, state).CombinedOutput()
			require.NoError(t, err, "%s", out)
		}
		ip("down")
		return func() { ip("up") }
	}
	i := int(device[len(device)-1] - '0')
	w.SetPort(i, false)
	return func() { w.SetPort(i, true) }
}

// frozen returns an endpoint where a listener takes connections and never says anything.
func frozen(t conformance.TB, live transport.Endpoint) transport.Endpoint {
	e, err := blob.DecodeEndpoint(live.Blob)
	require.NoError(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		var conns []net.Conn
		defer func() {
			for _, c := range conns {
				_ = c.Close()
			}
		}()
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			conns = append(conns, c)
		}
	}()
	t.Cleanup(func() { _ = ln.Close(); <-done })
	e.Addrs = []string{ln.Addr().String()}
	text, err := e.Encode()
	require.NoError(t, err)
	return transport.Endpoint{Blob: text, Incarnation: e.Incarnation}
}

// short bounds a wait of the tests; reaching it is a failure, never a result.
const short = 20 * time.Second

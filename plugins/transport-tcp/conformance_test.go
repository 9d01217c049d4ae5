package tcp

import (
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/frame"
	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/transporttest"
)

func TestMain(m *testing.M) {
	if os.Getenv(serveEnv) != "" {
		os.Exit(serveBench())
	}
	goleak.VerifyTestMain(m)
}

func loopback() *Config {
	c := DefaultConfig()
	c.Host = "127.0.0.1"
	return c
}

func TestConformance(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"defaults":                    func(*Config) {},
		"small":                       func(c *Config) { c.SliceBytes, c.ConnectionsPerPeer, c.MaxInflightBytes = 4096, 1, 64<<10 },
		"many connections, checksums": func(c *Config) { c.SliceBytes, c.ConnectionsPerPeer, c.Checksum = 16<<10, 16, true },
	} {
		t.Run(name, func(t *testing.T) {
			config := func() plugin.Config {
				c := loopback()
				c.MaxInflightBytes = 4 << 20
				change(c)
				return c
			}
			transporttest.Run(t, Factory(),
				transporttest.WithConfig(config),
				transporttest.WithLimit(4<<20),
				transporttest.WithFrozen(frozen),
				transporttest.WithRestart(func(cfg plugin.Config, ep transport.Endpoint) plugin.Config {
					e, err := frame.DecodeEndpoint(ep.Blob)
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

// frozen returns an endpoint where a listener takes connections, says hello as the live
// peer would, and never says anything again.
func frozen(t conformance.TB, live transport.Endpoint) transport.Endpoint {
	return frozenAs(t, live, func(c net.Conn) net.Conn { return c })
}

// frozenAs is frozen with something around every connection.
func frozenAs(t conformance.TB, live transport.Endpoint, wrap func(net.Conn) net.Conn) transport.Endpoint {
	e, err := frame.DecodeEndpoint(live.Blob)
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
			c = wrap(c)
			conns = append(conns, c)
			_, _ = c.Write(helloOf(e.Incarnation))
		}
	}()
	t.Cleanup(func() { _ = ln.Close(); <-done })
	e.Addrs = []string{ln.Addr().String()}
	return transport.Endpoint{Blob: e.Encode(), Incarnation: e.Incarnation}
}

func helloOf(incarnation uint64) []byte {
	h := frame.Hello{Low: frame.Version, High: frame.Version, Incarnation: incarnation, MaxFrame: frame.MaxSlice, Idle: time.Minute}
	b := make([]byte, frame.Size)
	h.Put(b)
	return b
}

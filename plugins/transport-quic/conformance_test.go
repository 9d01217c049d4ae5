package quic

import (
	"context"
	"net"
	"os"
	"strconv"
	"testing"

	quicgo "github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/plugins/transport-quic/internal/identity"
	"github.com/mooncake-go/mooncake/plugins/transport-quic/internal/wire"
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

func insecure() *Config {
	c := DefaultConfig()
	c.Host, c.InsecureDev, c.SocketBuffer = "127.0.0.1", true, 0
	return c
}

func TestConformance(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"defaults": func(*Config) {},
		"small": func(c *Config) {
			c.SliceBytes, c.ConnectionsPerPeer, c.StreamsPerConnection, c.MaxInflightBytes = 8<<10, 1, 8, 64<<10
			c.StreamWindow, c.ConnectionWindow = 64<<10, 64<<10
		},
	} {
		t.Run(name, func(t *testing.T) {
			if raceBuild && name == "small" {
				t.Skip(onceUnderRace)
			}
			config := func() plugin.Config {
				c := insecure()
				c.MaxInflightBytes = limit
				change(c)
				return c
			}
			transporttest.Run(t, Factory(), lessUnderRace(
				transporttest.WithConfig(config),
				transporttest.WithLimit(limit),
				transporttest.WithFrozen(frozen),
				transporttest.WithRestart(samePort))...)
		})
	}
}

// limit is what one path accepts; checks of limits move a few times as much.
const limit = 1 << 20

// onceUnderRace says why a check does not run: under the race detector encrypting is so slow
// that each rule is checked once, with the defaults and without rings between. "make test" runs
// the package without it as well, and then every check in every way.
const onceUnderRace = "the race detector watches this once, with the defaults and in process"

// lessUnderRace leaves out what only measures.
func lessUnderRace(opts ...transporttest.Option) []transporttest.Option {
	return withoutUnderRace(opts, "throughput")
}

func withoutUnderRace(opts []transporttest.Option, checks ...string) []transporttest.Option {
	if raceBuild {
		for _, c := range checks {
			opts = append(opts, transporttest.Without(c, onceUnderRace))
		}
	}
	return opts
}

func samePort(cfg plugin.Config, ep transport.Endpoint) plugin.Config {
	e, err := wire.DecodeEndpoint(ep.Blob)
	if err != nil {
		panic(err)
	}
	_, port, err := net.SplitHostPort(e.Addrs[0])
	if err != nil {
		panic(err)
	}
	cfg.(*Config).Port, err = strconv.Atoi(port)
	if err != nil {
		panic(err)
	}
	return cfg
}

// frozen returns an endpoint where a listener takes connections and streams as the live
// peer would, and never answers.
func frozen(t conformance.TB, live transport.Endpoint) transport.Endpoint {
	e, err := wire.DecodeEndpoint(live.Blob)
	require.NoError(t, err)
	n := newNode(*insecure())
	id, err := identity.Load(&n.cfg.Config, n.clock())
	require.NoError(t, err)
	n.trust.Set(id)
	ln, err := quicgo.ListenAddr("127.0.0.1:0", n.trust.Server(), n.quicConfig(true))
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			if _, err := ln.Accept(context.Background()); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { _ = ln.Close(); <-done })
	e.Addrs, e.Pin = []string{ln.Addr().String()}, id.Pin
	return transport.Endpoint{Blob: e.Encode(), Incarnation: e.Incarnation}
}

package shm

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/plugins/transport-shm/internal/wire"
	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/transporttest"
)

func TestConformance(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"defaults":     func(*Config) {},
		"small":        func(c *Config) { c.SliceBytes, c.Workers, c.MaxInflightBytes = 64<<10, 1, 64<<10 },
		"many workers": func(c *Config) { c.SliceBytes, c.Workers = 64<<10, 8 },
	} {
		t.Run(name, func(t *testing.T) {
			config := func() plugin.Config {
				c := DefaultConfig()
				c.MaxInflightBytes = 4 << 20
				change(c)
				return c
			}
			transporttest.Run(t, Factory(),
				transporttest.WithConfig(config),
				transporttest.WithLimit(4<<20),
				transporttest.WithSharedMemory(transporttest.SealedMemory),
				transporttest.WithFrozen(frozen),
				// A new start is never where an earlier one was, whatever its settings.
				transporttest.WithRestart(func(c plugin.Config, _ transport.Endpoint) plugin.Config { return c }))
		})
	}
}

// frozen returns an endpoint where a listener takes connections and never says anything.
func frozen(t conformance.TB, live transport.Endpoint) transport.Endpoint {
	e, err := wire.DecodeEndpoint(live.Blob)
	require.NoError(t, err)
	ln, name, err := listen(context.Background())
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
	e.Socket = name
	return transport.Endpoint{Blob: e.Encode(), Incarnation: e.Incarnation}
}

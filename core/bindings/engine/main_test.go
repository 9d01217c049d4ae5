package engine_test

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/cmd/mooncake/builtin"
	"github.com/mooncake-go/mooncake/core/bindings/engine"
	"github.com/mooncake-go/mooncake/core/bindings/settings"
	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func source(environ ...string) func() settings.Source {
	return func() settings.Source {
		return settings.Source{Environ: environ, Builtins: builtin.Plugins(), Log: io.Discard}
	}
}

// started is an engine on loopback, without a metadata service.
func started(t *testing.T, change ...func(*engine.Options)) *engine.Engine {
	t.Helper()
	o := engine.Options{Name: "127.0.0.1", Metadata: "P2PHANDSHAKE", Protocol: "tcp"}
	for _, c := range change {
		c(&o)
	}
	e := engine.New(source())
	t.Cleanup(e.Shut)
	require.NoError(t, e.Start(o))
	return e
}

// opened is an engine with memory that is open to peers.
func opened(t *testing.T, size int, change ...func(*engine.Options)) (*engine.Engine, []byte) {
	t.Helper()
	e := started(t, change...)
	mem := make([]byte, size)
	require.NoError(t, e.Register([][]byte{mem}, "*", true))
	return e, mem
}

func at(mem []byte, off int) uint64 { return memory.AddrOf(mem) + uint64(off) }

func write(local []byte, addr uint64) (transport.OpKind, []engine.Range) {
	return transport.Write, []engine.Range{{Local: local, Addr: addr}}
}

func pattern(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = seed + byte(i*7) + byte(i>>8)
	}
	return b
}

package upstream_test

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/cmd/mooncake/builtin"
	"github.com/mooncake-go/mooncake/core/bindings/settings"
	"github.com/mooncake-go/mooncake/core/bindings/upstream"
	"github.com/mooncake-go/mooncake/core/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func source() settings.Source {
	return settings.Source{Builtins: builtin.Plugins(), Log: io.Discard}
}

func made(t *testing.T, discover bool) *upstream.Engine {
	t.Helper()
	e, err := upstream.New(source(), "P2PHANDSHAKE", "127.0.0.1", discover)
	require.NoError(t, err)
	t.Cleanup(e.Shut)
	return e
}

func nameOf(t *testing.T, e *upstream.Engine) string {
	t.Helper()
	name, err := e.Name()
	require.NoError(t, err)
	return name
}

func at(mem []byte, off int) uint64 { return memory.AddrOf(mem) + uint64(off) }

func register(e *upstream.Engine, mem []byte) error {
	return e.Register([][]byte{mem}, []uint64{at(mem, 0)}, "*", true)
}

package store_test

import (
	"context"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/cmd/mooncake/builtin"
	"github.com/mooncake-go/mooncake/core/app"
	"github.com/mooncake-go/mooncake/core/bindings/settings"
	"github.com/mooncake-go/mooncake/core/bindings/store"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.DiscardHandler)

// startMaster starts a master in this process and returns its address.
func startMaster(t testing.TB, change func(*config.Config)) string {
	t.Helper()
	loaded, err := config.Load(config.Options{Role: config.RoleMaster})
	require.NoError(t, err)
	cfg := loaded.Config
	if change != nil {
		change(&cfg)
	}
	m, err := app.StartLocalMaster(t.Context(), cfg, builtin.Plugins(), quiet)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close(context.Background())) })
	return m.Address()
}

// options are those of a store whose environment is env and that logs to w.
func options(w io.Writer, env ...string) store.Options {
	environ := func() []string { return env }
	return store.Options{
		Builtins: builtin.Plugins(), Environ: environ, Log: w,
		Memory: store.NewHostMemory(func() settings.Source {
			return settings.Source{Environ: env, Builtins: builtin.Plugins(), Log: w}
		}),
	}
}

// dict is what setup is given.
func dict(master string, more ...string) map[string]string {
	d := map[string]string{"local_hostname": "127.0.0.1", "metadata_server": "P2PHANDSHAKE", "master_server_addr": master}
	for _, kv := range more {
		k, v, _ := strings.Cut(kv, "=")
		d[k] = v
	}
	return d
}

// open makes a store that is set up, and closes it in the end.
func open(t testing.TB, master string, more ...string) *store.Store {
	t.Helper()
	s := store.New(options(os.Stderr))
	require.Zero(t, s.Setup(t.Context(), dict(master, more...), false, nil), s.LastError())
	t.Cleanup(func() { require.Zero(t, s.Close(), s.LastError()) })
	return s
}

// pieces is memory of Go as C would give it, one piece for each object. It stays in place
// because the tests keep it.
func pieces(mem ...[]byte) store.Fragments {
	var p store.Fragments
	for _, m := range mem {
		p.Ptrs, p.Sizes = append(p.Ptrs, memory.AddrOf(m)), append(p.Sizes, uint64(len(m)))
	}
	return p
}

var once = store.Replicate{ReplicaNum: 1}

// put stores one object.
func put(s *store.Store, key string, value []byte) store.Code {
	var out [1]store.Code
	s.Put([]string{key}, pieces(value), &once, 0, out[:])
	return out[0]
}

// get reads one object, nil where there is none.
func get(s *store.Store, key string) []byte {
	b := s.GetBuffers([]string{key})[0]
	if b.Status != 0 {
		return nil
	}
	defer b.Release()
	return append([]byte(nil), b.Bytes()...)
}

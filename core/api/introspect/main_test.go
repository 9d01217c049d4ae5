package introspect

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a process with plugins.
type fake struct {
	have   []pluginhost.Instance
	reload func(ctx context.Context, id plugin.ID) (pluginhost.Instance, error)
}

func (f *fake) Instances() []pluginhost.Instance { return f.have }

func (f *fake) Reload(ctx context.Context, id plugin.ID) (pluginhost.Instance, error) {
	return f.reload(ctx, id)
}

func twoPlugins() *fake {
	return &fake{have: []pluginhost.Instance{
		{
			Kind: "evict", Name: "lru", Home: "/p/mooncake-plugin-evict-lru", State: plugin.StateRestarting, Reason: "the process was killed", Restarts: 2,
			Version: "0.1.0", SHA256: "ab", Since: time.Unix(1e9, 0).UTC(), Ended: "signal 9", Log: []string{"one", "two"}, Figures: map[string]string{"bytes_copied": "0"},
		},
		{Kind: "alloc", Name: "arena", Home: pluginhost.HomeBuiltin, State: plugin.StateOK},
	}}
}

// short is a folder whose path leaves room for a socket's name.
func short(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "mi")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func placesIn(dir string) Places {
	return Places{uid: os.Geteuid(), runtime: filepath.Join(dir, "user"), run: filepath.Join(dir, "run"), temp: filepath.Join(dir, "tmp")}
}

// serve serves h at path.
func serve(t *testing.T, h Host, path string) *Client {
	t.Helper()
	ln, err := ListenAt(t.Context(), path)
	require.NoError(t, err)
	s := NewServer(h, "master", "v1", nil)
	s.Start(ln)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(t, s.Stop(ctx))
		_, err := os.Lstat(path)
		require.ErrorIs(t, err, os.ErrNotExist, "the socket goes with its server")
	})
	return NewClient(path)
}

func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

var errBoom = errs.New(errs.RPCFail, "plugin evict/lru", "the new process ended: %w", errors.New("no license"))

package pluginhost

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/pluginhost/internal/testplugin"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

func manifestOf(id plugin.ID, apis ...uint) plugin.Manifest { return testplugin.Manifest(id, apis...) }

// text is a file that carries a manifest; the host does not run it.
func text(t *testing.T, m plugin.Manifest) []byte {
	t.Helper()
	return testplugin.Script(t, m)
}

func catalog(t *testing.T, builtins []plugin.Factory, dirs ...string) *Catalog {
	t.Helper()
	c, err := New(builtins, Options{Dirs: dirs})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close(t.Context())) })
	return c
}

func builtin(kind, name string) plugin.Factory {
	m := manifestOf(plugin.ID{Kind: kind, Name: name}, 1)
	if kind == plugin.KindTransport {
		return transport.Define(m, func() *plugin.NoConfig { return &plugin.NoConfig{} },
			func(*plugin.NoConfig) (transport.Transport, error) { return nil, errors.New("cannot make one") })
	}
	return evict.Define(m, func() *cfg { return &cfg{Size: 3} }, func(c *cfg) (evict.Policy, error) {
		return &mild{cfg: *c}, nil
	})
}

func TestListRunsNothingAndShowsEverything(t *testing.T) {
	first, second := folder(t), folder(t)
	id := func(name string) plugin.ID { return plugin.ID{Kind: "evict", Name: name} }
	install(t, first, "mooncake-plugin-evict-good", text(t, manifestOf(id("good"), 1, 2)))
	install(t, second, "mooncake-plugin-evict-good", text(t, manifestOf(id("good"), 1)))
	install(t, first, "mooncake-plugin-evict-lru", text(t, manifestOf(id("lru"), 1)))
	install(t, first, "mooncake-plugin-evict-liar", text(t, manifestOf(id("other"), 1)))
	install(t, first, "mooncake-plugin-evict-empty", nil)
	install(t, first, "mooncake-plugin-evict-torn", text(t, manifestOf(id("torn"), 1))[:60])
	install(t, first, "mooncake-plugin-nonsense", nil)
	install(t, first, "README", nil)
	open := install(t, first, "mooncake-plugin-evict-open", text(t, manifestOf(id("open"), 1)))
	require.NoError(t, os.Chmod(open, 0o775))
	dull := install(t, first, "mooncake-plugin-evict-dull", text(t, manifestOf(id("dull"), 1)))
	require.NoError(t, os.Chmod(dull, 0o644))
	suid := install(t, first, "mooncake-plugin-evict-suid", text(t, manifestOf(id("suid"), 1)))
	require.NoError(t, os.Chmod(suid, 0o755|os.ModeSetuid))
	require.NoError(t, syscall.Mkfifo(filepath.Join(first, "mooncake-plugin-evict-fifo"), 0o755))
	require.NoError(t, os.Mkdir(filepath.Join(first, "mooncake-plugin-evict-dir"), 0o755))
	require.NoError(t, os.Symlink("/nonexistent", filepath.Join(first, "mooncake-plugin-evict-gone")))
	require.NoError(t, os.Symlink(filepath.Join(second, "mooncake-plugin-evict-good"), filepath.Join(first, "mooncake-plugin-evict-linked")))

	c := catalog(t, []plugin.Factory{builtin("evict", "lru"), builtin("transport", "tcp")}, filepath.Join(first, "missing"), first, second, dull)
	got := map[string]Entry{}
	var order []string
	for _, e := range c.List() {
		key := e.Name
		if e.Home == HomeBuiltin || filepath.Dir(e.Home) == second {
			key += "@" + filepath.Base(filepath.Dir(e.Home))
		}
		got[key] = e
		order = append(order, e.Kind+"/"+e.Name)
	}
	for key, want := range map[string]string{
		"good@" + filepath.Base(second): "not used: " + first,
		"liar":                          "named after evict/liar, but its manifest says evict/other",
		"empty":                         "carries no Mooncake plugin manifest",
		"torn":                          "damaged",
		"mooncake-plugin-nonsense":      "not named mooncake-plugin-<kind>-<name>",
		"open":                          "can be changed by others (mode 0775); run: chmod go-w ",
		"dull":                          "is not executable",
		"suid":                          "setuid",
		"fifo":                          "not a regular file",
		"dir":                           "not a regular file",
		"gone":                          "cannot resolve it",
		"linked":                        "named after evict/linked, but its manifest says evict/good",
	} {
		e, ok := got[key]
		if assert.True(t, ok, key) {
			assert.Equal(t, plugin.StateFailed, e.State, key)
			assert.Contains(t, e.Reason, want, key)
		}
	}
	good := got["good"]
	assert.Equal(t, plugin.StateAvailable, good.State, good.Reason)
	assert.Equal(t, []uint{1, 2}, good.API)
	assert.Equal(t, filepath.Join(first, "mooncake-plugin-evict-good"), good.Home)
	assert.NotContains(t, got, "README")
	assert.Contains(t, got, "", "a path that is no folder is listed")
	assert.Equal(t, []string{"/", "/mooncake-plugin-nonsense", "transport/tcp", "evict/dir", "evict/dull"}, order[:5])

	raw, err := json.Marshal(got["lru@."])
	require.NoError(t, err)
	assert.JSONEq(t, `{"kind":"evict","name":"lru","version":"1.0.0","api":[1],"home":"built-in","state":"available","summary":"for tests","trust":"built-in"}`, string(raw))
}

func TestFoldersOfOthersAreRefused(t *testing.T) {
	dir := folder(t)
	install(t, dir, "mooncake-plugin-evict-good", text(t, manifestOf(plugin.ID{Kind: "evict", Name: "good"}, 1)))
	elsewhere := folder(t)
	require.NoError(t, os.Symlink(filepath.Join(dir, "mooncake-plugin-evict-good"), filepath.Join(elsewhere, "mooncake-plugin-evict-good")))
	assert.Equal(t, plugin.StateAvailable, catalog(t, nil, elsewhere).List()[0].State, "a symlink is followed")

	require.NoError(t, os.Chmod(dir, 0o777))
	for _, d := range []string{dir, elsewhere} {
		e := catalog(t, nil, d).List()[0]
		assert.Equal(t, plugin.StateFailed, e.State)
		assert.Contains(t, e.Reason, "the folder "+dir+" can be changed by others (mode 0777)")
	}
	require.NoError(t, os.Chmod(dir, 0o755))
	_, err := catalog(t, nil, dir).OpenEvict(t.Context(), plugin.ID{Kind: "evict", Name: "good"}, Spec{}, EvictOptions{})
	require.NoError(t, err)

	if os.Geteuid() == 0 {
		require.NoError(t, os.Chown(dir, 12345, -1))
		assert.Contains(t, catalog(t, nil, dir).List()[0].Reason, "belongs to user 12345, who is neither root nor this user (0)")
	}
}

func TestNewRefusals(t *testing.T) {
	_, err := New([]plugin.Factory{builtin("evict", "lru"), builtin("evict", "lru")}, Options{})
	assert.ErrorContains(t, err, "two built-in plugins are called evict/lru")
	for _, d := range []string{"", "bin", "./x"} {
		_, err = New(nil, Options{Dirs: []string{d}})
		assert.ErrorIs(t, err, errs.InvalidParams.Err(), d)
	}
}

// TestAPluginOfNoUseHere: a plugin that cannot work here is listed with the reason, without being
// opened.
func TestAPluginOfNoUseHere(t *testing.T) {
	m := manifestOf(plugin.ID{Kind: plugin.KindTransport, Name: "needy"}, transport.API()...)
	f := transport.Define(m, func() *plugin.NoConfig { return new(plugin.NoConfig) },
		func(*plugin.NoConfig) (transport.Transport, error) { panic("made by a listing") },
		plugin.WithCheck(func() error { return errors.New("there is no device") }))
	c, err := New([]plugin.Factory{f}, Options{})
	require.NoError(t, err)
	got := c.List()
	require.Len(t, got, 1)
	require.Equal(t, plugin.StateUnavailable, got[0].State)
	require.Equal(t, "there is no device", got[0].Reason)
}

package pluginhost

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/pluginhost/internal/testplugin"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/tier/tiertest/reference"
)

func TestATierInProcess(t *testing.T) {
	c := catalog(t, []plugin.Factory{reference.Factory()})
	id := reference.Factory().Manifest().ID
	x, err := c.OpenTier(t.Context(), id, Spec{Config: map[string]any{"capacity": 4 << 20}}, TierOptions{})
	require.NoError(t, err)
	require.NoError(t, x.Start(t.Context(), newListener()))
	assert.EqualValues(t, 4<<20, x.Volume().Capacity)
	require.Len(t, c.Instances(), 1)
	assert.Equal(t, plugin.StateOK, c.Instances()[0].State)
	require.NoError(t, x.Stop(t.Context()))
	assert.Empty(t, c.Instances())
	_, err = c.Open(t.Context(), id, Spec{Config: map[string]any{"capacity": -1}}, Supervision{})
	assert.ErrorContains(t, err, "capacity")
	_, err = c.OpenTier(t.Context(), lru(), Spec{}, TierOptions{})
	assert.ErrorContains(t, err, "kind tier is needed")
}

// TestATierNeedsToBeLinkedIn: a program of the kind is listed with the reason why it is not used.
func TestATierNeedsToBeLinkedIn(t *testing.T) {
	dir := folder(t)
	m := reference.Factory().Manifest()
	install(t, dir, m.BinaryName(), testplugin.Script(t, m))
	c, err := New(nil, Options{Dirs: []string{dir}})
	require.NoError(t, err)
	for _, mode := range []Mode{ModeAuto, ModeSubprocess, ModeInProcess} {
		_, err := c.Open(t.Context(), m.ID, Spec{Mode: mode}, Supervision{})
		assert.Equal(t, errs.NotSupported, errs.CodeOf(err))
		assert.ErrorContains(t, err, "plugins of kind tier cannot run in a process of their own")
		assert.ErrorContains(t, err, "link tier/reference into the program")
	}
	list := c.List()
	require.Len(t, list, 1)
	assert.Equal(t, filepath.Join(dir, m.BinaryName()), list[0].Home)
	assert.Equal(t, plugin.StateUnavailable, list[0].State)
	assert.Contains(t, list[0].Reason, "kind tier")
}

package conform_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/core/pluginhost/conform"
	"github.com/mooncake-go/mooncake/core/pluginhost/internal/testplugin"
	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/tier/tiertest/reference"
)

// TestATierInProcesses runs the suite of tiers on one that runs in supervised processes.
func TestATierInProcesses(t *testing.T) {
	dir := testplugin.Folder(t)
	require.NoError(t, testplugin.Build(t.Context(), dir, plugin.KindTier))
	c, err := pluginhost.New(nil, pluginhost.Options{Dirs: []string{dir}})
	require.NoError(t, err)
	report, err := conform.Run(t.Context(), c, plugin.ID{Kind: plugin.KindTier, Name: "faulty"}, pluginhost.Spec{}, conform.Options{})
	require.NoError(t, err)
	for _, check := range report.Checks {
		assert.NotEqual(t, conformance.Fail, check.Status, "%s: %s", check.Name, check.Log)
	}
	assert.Greater(t, report.Count(conformance.Pass), 40)
	assert.Equal(t, "subprocess", report.Mode)
	assert.Empty(t, c.Instances(), "each tier was stopped")
}

// TestATierOfTheCatalog runs the suite of tiers on one that is linked in.
func TestATierOfTheCatalog(t *testing.T) {
	c, err := pluginhost.New([]plugin.Factory{reference.Factory()}, pluginhost.Options{})
	require.NoError(t, err)
	report, err := conform.Run(t.Context(), c, reference.Factory().Manifest().ID, pluginhost.Spec{Config: map[string]any{"window": 64}}, conform.Options{})
	require.NoError(t, err)
	for _, check := range report.Checks {
		assert.NotEqual(t, conformance.Fail, check.Status, "%s: %s", check.Name, check.Log)
	}
	assert.Greater(t, report.Count(conformance.Pass), 40)
	assert.Empty(t, c.Instances(), "each tier was stopped")
}

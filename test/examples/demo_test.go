package examples

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/bench/report"
	core "github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// listed returns the entry of a plugin in `mooncake plugins list`, and checks that the plugin was
// found in the folder.
func listed(t *testing.T, dir string, id plugin.ID) core.Entry {
	t.Helper()
	var entries []core.Entry
	require.NoError(t, json.Unmarshal(mooncake(t, "plugins", "list", "-o", "json", "--plugin-dir", dir), &entries))
	for _, e := range entries {
		if e.ID() == id {
			assert.Equal(t, plugin.StateAvailable, e.State, e.Reason)
			assert.Contains(t, e.Home, dir)
			return e
		}
	}
	require.Failf(t, "not listed", "%s in %s: %+v", id, dir, entries)
	return core.Entry{}
}

// demonstrated runs the demo with a plugin of a folder, in a process of its own. Every page is read
// as it was put, some pages are evicted, and a transport moves them without a copy on the way to
// it.
func demonstrated(t *testing.T, dir string, id plugin.ID) {
	t.Helper()
	var rep report.Report
	flag := map[string]string{plugin.KindEvict: "--evictor", plugin.KindAlloc: "--allocator", plugin.KindTransport: "--transport"}[id.Kind]
	args := []string{
		"demo", "-o", "json", "--plugin-dir", dir,
		"--requests", "120", "--page-size", "64KiB", "--pool-size", "16MiB", flag, id.Name,
	}
	require.NoError(t, json.Unmarshal(mooncake(t, args...), &rep))
	assert.Zero(t, rep.PagesWrong)
	assert.Positive(t, rep.PagesVerified)
	assert.Positive(t, rep.Evictions)
	used, moved := 0, false
	for _, p := range rep.Plugins {
		if p.ID() != id {
			continue
		}
		used++
		assert.Positive(t, p.PID, "%s in %s", id, p.Where)
		if id.Kind == plugin.KindTransport {
			assert.Equal(t, "0", p.Figures["bytes_copied"], p.Where)
			moved = moved || p.Figures["bytes_moved"] != "0" // Workers connect to stores, not stores to workers.
		}
	}
	assert.Positive(t, used, "%+v", rep.Plugins)
	assert.Equal(t, id.Kind == plugin.KindTransport, moved)
}

package report

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/bench/worker"
	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// What the stores and the workers say of one plugin becomes one line.
func TestPluginsOfARun(t *testing.T) {
	uds := func(restarts int, moved, memory string) pluginhost.Instance {
		return pluginhost.Instance{
			Kind: "transport", Name: "uds", Home: "/p/x", State: plugin.StateOK, Restarts: restarts,
			Figures: map[string]string{"bytes_copied": "0", "bytes_moved": moved, "memory": memory},
		}
	}
	lru := pluginhost.Instance{Kind: "evict", Name: "lru", Home: pluginhost.HomeBuiltin, State: plugin.StateDegraded}
	results := []worker.Result{{Worker: 1, Plugins: []pluginhost.Instance{uds(0, "30", "vm")}}, {Worker: 0, Plugins: []pluginhost.Instance{uds(1, "12", "mapped")}}}
	r := Build(results, Facts{Plugins: []Plugin{{"master", lru}, {"store-1", uds(0, "7", "mapped")}, {"store-2", uds(0, "1", "mapped")}}})
	var wheres []string
	for _, p := range r.Plugins {
		wheres = append(wheres, p.Where)
	}
	require.Equal(t, []string{"master", "store-1", "store-2", "worker-1", "worker-2"}, wheres)
	var b bytes.Buffer
	r.Text(&b)
	require.Contains(t, b.String(), "evict/lru             linked into the master, degraded in 1\n")
	require.Contains(t, b.String(),
		"transport/uds         in a process of its own beside 2 stores and 2 workers, started again 1 time, bytes copied 0, bytes moved 50, memory mapped/vm\n")

	text, err := json.Marshal(r)
	require.NoError(t, err)
	var back Report
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, r.Plugins, back.Plugins)
	require.Contains(t, string(text), `"where":"worker-1","kind":"transport"`)
}

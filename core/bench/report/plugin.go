package report

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/mooncake-go/mooncake/core/pluginhost"
)

// Plugin is a plugin that a process of the pool had in use.
type Plugin struct {
	// Where is the name of the process: master, store-1, worker-2.
	Where string `json:"where"`
	pluginhost.Instance
}

// pluginRows says of each plugin where it ran, in the order in which they come.
func (r Report) pluginRows(row func(name, format string, args ...any)) {
	var order []string
	groups := map[string][]Plugin{}
	for _, p := range r.Plugins {
		id := p.ID().String()
		if groups[id] == nil {
			order = append(order, id)
		}
		groups[id] = append(groups[id], p)
	}
	for _, id := range order {
		row(id, "%s", describe(groups[id]))
	}
}

// describe tells where one plugin ran, how it fared, and what was counted.
func describe(uses []Plugin) string {
	var names, own []string
	restarts := 0
	states := map[string]int{}
	for _, p := range uses {
		names = append(names, p.Where)
		if p.Home != pluginhost.HomeBuiltin {
			own = append(own, p.Where)
		}
		restarts += p.Restarts
		states[string(p.State)]++
	}
	parts := []string{"linked into " + counted(names)}
	if len(own) > 0 {
		parts = []string{"in a process of its own beside " + counted(own)}
	}
	if restarts > 0 {
		parts = append(parts, fmt.Sprintf("started again %d %s", restarts, plural(restarts, "time")))
	}
	for _, s := range slices.Sorted(maps.Keys(states)) {
		if s != "ok" {
			parts = append(parts, fmt.Sprintf("%s in %d", s, states[s]))
		}
	}
	return strings.Join(append(parts, figures(uses)...), ", ")
}

// counted is "master", "3 stores", "1 store and 2 workers".
func counted(names []string) string {
	var order, out []string
	count := map[string]int{}
	for _, n := range names {
		role, _, _ := strings.Cut(n, "-")
		if count[role] == 0 {
			order = append(order, role)
		}
		count[role]++
	}
	for _, role := range order {
		if role == "master" {
			out = append(out, "the master")
		} else {
			out = append(out, fmt.Sprintf("%d %s", count[role], plural(count[role], role)))
		}
	}
	return strings.Join(out, " and ")
}

// figures adds up what is a number, and names each text once.
func figures(uses []Plugin) []string {
	totals, texts := map[string]uint64{}, map[string][]string{}
	for _, p := range uses {
		for name, text := range p.Figures {
			if n, err := strconv.ParseUint(text, 10, 64); err == nil {
				totals[name] += n
			} else if !slices.Contains(texts[name], text) {
				texts[name] = append(texts[name], text)
			}
		}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(totals)) {
		out = append(out, strings.ReplaceAll(name, "_", " ")+" "+strconv.FormatUint(totals[name], 10))
	}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		slices.Sort(texts[name])
		out = append(out, strings.ReplaceAll(name, "_", " ")+" "+strings.Join(texts[name], "/"))
	}
	return out
}

package plugins

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/output"
	"github.com/mooncake-go/mooncake/core/api/introspect"
	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/core/pluginhost/find"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// patience is the default of Env.Patience.
const patience = 3 * time.Second

// liveInstance is a plugin that a process uses.
type liveInstance struct {
	Process             introspect.Process `json:"process" yaml:"process"`
	pluginhost.Instance `yaml:",inline"`
}

// where names the process.
func (l liveInstance) where() string { return processName(l.Process.Role, l.Process.PID) }

func processName(role string, pid int) string {
	return fmt.Sprintf("%s (process %d)", output.Printable(role), pid)
}

// listedPlugin is a plugin, as `plugins list` shows it.
type listedPlugin struct {
	pluginhost.Entry `yaml:",inline"`
	// Instances are those of running processes. The key is absent if no process was asked.
	Instances []liveInstance `json:"instances,omitzero" yaml:"instances,omitempty"`
	// Kept are the versions that plugins rollback can put back in place of the file.
	Kept []find.Kept `json:"kept,omitempty" yaml:"kept,omitempty"`
}

// live has the answers of the processes of this machine.
type live struct {
	instances []liveInstance
	silent    []string // a sentence for each process that did not answer
	closed    []string // folders that this user must not read
}

func (e verbs) places() introspect.Places { return introspect.StandardPlaces(e.Getenv) }

// askAll asks every process that has an admin socket.
func (e verbs) askAll(ctx context.Context) live {
	found := introspect.Find(e.places())
	l := live{instances: []liveInstance{}, closed: found.Closed}
	for _, a := range introspect.Ask(ctx, found.Sockets, cmp.Or(e.Patience, patience)) {
		if a.Ended {
			continue // It has ended since its socket was found, and has nothing in use.
		}
		if a.Err != nil {
			l.silent = append(l.silent, fmt.Sprintf("%s did not say what it runs: %s", processName(a.Name()), output.Printable(a.Err.Error())))
			continue
		}
		for _, in := range a.Plugins.Plugins {
			l.instances = append(l.instances, liveInstance{a.Plugins.Process, in})
		}
	}
	return l
}

// Of returns the plugins that the process with this number uses.
func Of(ctx context.Context, e *command.Env, pid int) ([]pluginhost.Instance, error) {
	for _, s := range introspect.Find(verbs{e}.places()).Sockets {
		if s.PID == pid {
			p, err := introspect.NewClient(s.Path).Plugins(ctx)
			return p.Plugins, err
		}
	}
	return nil, errs.New(errs.FileNotFound, "", "process %d has no admin socket here", pid)
}

// join adds its instances to each plugin, and adds plugins that only instances name.
func join(entries []pluginhost.Entry, l live) []listedPlugin {
	out := make([]listedPlugin, 0, len(entries))
	for _, e := range entries {
		out = append(out, listedPlugin{Entry: e, Instances: []liveInstance{}})
	}
	for _, in := range l.instances {
		i := slices.IndexFunc(out, func(p listedPlugin) bool { return p.Home == in.Home && p.Kind == in.Kind && p.Name == in.Name })
		if i < 0 {
			i = len(out)
			out = append(out, listedPlugin{Entry: pluginhost.Entry{
				Kind: in.Kind, Name: in.Name, Version: in.Version, API: []uint{}, Home: in.Home, SHA256: in.SHA256,
				Summary: "in use, but not in the folders that were searched here; --plugin-dir adds one",
			}})
		}
		out[i].Instances = append(out[i].Instances, in)
	}
	for i := range out {
		if worst, ok := worstOf(out[i].Instances); ok {
			out[i].State, out[i].Reason = worst.State, worst.Reason
		}
	}
	return out
}

// severity orders states by the attention that they need.
func severity(s plugin.State) int {
	return slices.Index([]plugin.State{
		plugin.StateStopped, plugin.StateAvailable, plugin.StateUnavailable, plugin.StateOK, plugin.StateStopping, plugin.StateStarting,
		plugin.StateDegraded, plugin.StateRestarting, plugin.StateFailed,
	}, s)
}

func worstOf(ins []liveInstance) (liveInstance, bool) {
	if len(ins) == 0 {
		return liveInstance{}, false
	}
	return slices.MaxFunc(ins, func(a, b liveInstance) int { return severity(a.State) - severity(b.State) }), true
}

// stateOf returns the state for the table. If the instances differ, it includes the number of
// instances in that state.
func stateOf(p listedPlugin) string {
	n := 0
	for _, in := range p.Instances {
		if in.State == p.State {
			n++
		}
	}
	if n == len(p.Instances) {
		return output.Printable(string(p.State))
	}
	return fmt.Sprintf("%s (%d of %d)", output.Printable(string(p.State)), n, len(p.Instances))
}

// maxWhere is how many processes the table names.
const maxWhere = 3

// whereOf names the processes that use a plugin.
func whereOf(p listedPlugin) string {
	var names []string
	for i, in := range p.Instances {
		if i == maxWhere && len(p.Instances) > maxWhere+1 {
			names = append(names, fmt.Sprintf("%d more", len(p.Instances)-maxWhere))
			break
		}
		names = append(names, fmt.Sprintf("%s %d", output.Printable(in.Process.Role), in.Process.PID))
	}
	return output.Dash(strings.Join(names, ", "))
}

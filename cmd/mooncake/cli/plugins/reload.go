package plugins

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/output"
	"github.com/mooncake-go/mooncake/core/api/introspect"
	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// reloadFlags are the flags of plugins reload.
type reloadFlags struct {
	pid     int
	socket  string
	format  output.Format
	timeout time.Duration
}

func (e verbs) reloadCmd() *cobra.Command {
	var f reloadFlags
	cmd := &cobra.Command{
		Use:   "reload KIND/NAME",
		Short: "Replace the process of a plugin that is in use by one that runs the present binary",
		Long: `Restarts the plugin in each process of this machine that runs it as a subprocess, one process
after another. The host starts the new process beside the old one, replays its state, and
passes the work to it. The old process ends when its operations are complete. No operation is
lost. If the new binary does not start, the old process stays and the verb fails.

The exit code is 3 if no process uses the plugin, and 1 if a process did not answer or did not
replace it. A built-in plugin is replaced only when its process is restarted.`,
		Example: `  mooncake plugins reload transport/tcp
  mooncake plugins reload evict/lru --pid 4242
  mooncake plugins reload alloc/arena --socket /run/mooncake/master.sock -o json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return command.Usagef("%s takes one plugin as KIND/NAME, got %d arguments", cmd.CommandPath(), len(args))
			}
			_, err := plugin.ParseID(args[0])
			return command.Usage(err)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := plugin.ParseID(args[0])
			if err != nil {
				return command.Usage(err)
			}
			return e.reloadPlugin(cmd.Context(), id, f)
		},
	}
	cmd.Flags().IntVar(&f.pid, "pid", 0, "only in the process with this number")
	cmd.Flags().StringVar(&f.socket, "socket", "", "only in the process with this admin socket, in any folder")
	cmd.Flags().DurationVar(&f.timeout, "timeout", introspect.ReloadTimeout+30*time.Second, "how long to wait for one process, which continues by itself")
	output.Flag(cmd.Flags(), &f.format, "", output.Text, output.JSON)
	return cmd
}

// reloadResult is the result of the reload in one process.
type reloadResult struct {
	Process introspect.Process   `json:"process"`
	Before  pluginhost.Instance  `json:"before"`
	After   *pluginhost.Instance `json:"after,omitempty"`
	Error   string               `json:"error,omitempty"`
}

func (e verbs) reloadPlugin(ctx context.Context, id plugin.ID, f reloadFlags) error {
	switch {
	case f.pid < 0:
		return command.Usagef("--pid is %d, must be the number of a process", f.pid)
	case f.pid != 0 && f.socket != "":
		return command.Usagef("give --pid or --socket, not both")
	case f.timeout <= 0:
		return command.Usagef("--timeout is %s, must be above 0", f.timeout)
	}
	ctx, stop := command.UntilInterrupted(ctx)
	defer stop()
	targets, failed := e.reloadTargets(ctx, id, f)
	if len(targets) == 0 && failed == nil {
		fmt.Fprintf(e.Stderr, "mooncake: %s is not in use in any process that can be asked ('mooncake plugins list' shows what is in use where)\n", id)
		return &command.Quiet{Code: command.ExitNotFound}
	}
	results := []reloadResult{}
	for _, t := range targets {
		r := e.reloadOne(ctx, id, t, f.timeout)
		if r.Error != "" {
			failed = errors.Join(failed, fmt.Errorf("%s in %s: %s", id, t.where(), output.Printable(r.Error)))
		}
		results = append(results, r)
		if f.format == output.Text && r.After != nil {
			fmt.Fprintln(e.Stdout, r.String())
		}
	}
	if f.format == output.JSON {
		if err := output.WriteJSON(e.Stdout, results); err != nil {
			return err
		}
	}
	return failed
}

// reloadTargets finds the processes that use the plugin. It may return both targets and an error,
// which names the processes that did not answer.
func (e verbs) reloadTargets(ctx context.Context, id plugin.ID, f reloadFlags) ([]liveInstance, error) {
	sockets := []introspect.Socket{{Path: f.socket}}
	if f.socket == "" {
		sockets = introspect.Find(e.places()).Sockets
	}
	if f.pid != 0 {
		sockets = slices.DeleteFunc(sockets, func(s introspect.Socket) bool { return s.PID != f.pid })
		if len(sockets) == 0 {
			return nil, errs.WithHint(errs.New(errs.FileNotFound, "", "process %d has no admin socket here", f.pid), "'mooncake plugins list' shows what is in use where")
		}
	}
	var targets, linked []liveInstance
	var failed error
	for _, a := range introspect.Ask(ctx, sockets, cmp.Or(e.Patience, patience)) {
		if a.Ended && f.socket == "" {
			continue // It has ended since its socket was found, and has nothing to replace.
		}
		if a.Err != nil {
			failed = errors.Join(failed, a.Err)
			continue
		}
		for _, in := range a.Plugins.Plugins {
			found := liveInstance{a.Plugins.Process, in}
			switch {
			case in.ID() != id:
			case in.Home == pluginhost.HomeBuiltin:
				linked = append(linked, found)
			default:
				targets = append(targets, found)
			}
		}
	}
	if len(targets) == 0 && len(linked) > 0 {
		failed = errors.Join(failed, errs.WithHint(errs.New(errs.NotSupported, "", "%s is linked into %s", id, linked[0].where()),
			"install a new version of the program and start it again; with mode subprocess the plugin gets a process that can be replaced"))
	}
	return targets, failed
}

func (e verbs) reloadOne(ctx context.Context, id plugin.ID, t liveInstance, limit time.Duration) reloadResult {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	got, err := introspect.NewClient(t.Process.Socket).Reload(ctx, id)
	if err != nil {
		return reloadResult{Process: t.Process, Before: t.Instance, Error: err.Error()}
	}
	return reloadResult{Process: t.Process, Before: got.Before, After: &got.After}
}

// String describes the result in one line.
func (r reloadResult) String() string {
	change := func(what, before, after string) string {
		before, after = output.Dash(output.Printable(before)), output.Dash(output.Printable(after))
		if before == after {
			return what + " " + after
		}
		return what + " " + before + " -> " + after
	}
	short := func(sum string) string { return sum[:min(len(sum), 12)] }
	return strings.Join([]string{
		fmt.Sprintf("%s in %s: %s", output.Printable(r.After.ID().String()), processName(r.Process.Role, r.Process.PID), output.Printable(string(r.After.State))),
		change("process", fmt.Sprint(r.Before.PID), fmt.Sprint(r.After.PID)),
		change("version", r.Before.Version, r.After.Version),
		change("sha256", short(r.Before.SHA256), short(r.After.SHA256)),
	}, ", ")
}

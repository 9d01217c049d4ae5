package plugins

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/output"
	"github.com/mooncake-go/mooncake/core/observe"
	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/core/pluginhost/launch"
	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// runFlags are the flags of plugins run.
type runFlags struct {
	settings []string
	length   time.Duration
	format   output.Format
	level    string
	attach   bool
}

func (e verbs) runCmd() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run BINARY",
		Short: "Run a plugin's program as a host does, and show its log and state, until Ctrl-C",
		Long: `Runs a plugin in a process of its own, as a master or store would: it checks which users may
have changed the file and whether plugins.lock has its checksum, runs the program with the
environment that plugins get, agrees on a contract version over mutual TLS, passes the
settings, starts the plugin, and polls it once a second. A process that ends is restarted with
backoff, as in a host.

The verb is for authors, and shows why a plugin does not start. The file must be named
mooncake-plugin-<kind>-<name>. The exit code is 1 if the plugin does not start, or is not well
in the end.

With --attach the verb starts no program. It prints what to run instead, for a debugger or a profiler,
and waits for that program. It then neither kills it nor gives up on it while a debugger holds it. It
is refused where security.mode or plugins.trust demands programs that were checked.`,
		Example: `  mooncake plugins run bin/mooncake-plugin-evict-lru
  mooncake plugins run ./mooncake-plugin-evict-fifo --config expected_objects=1000000 --for 10s
  mooncake plugins run bin/mooncake-plugin-evict-lru --attach
  mooncake plugins run bin/mooncake-plugin-transport-tcp --config 'advertise=["127.0.0.1"]' -o json`,
		Args: command.Args(1, 1, "the path of one program"),
		RunE: func(cmd *cobra.Command, args []string) error { return e.runPlugin(cmd.Context(), args[0], f) },
	}
	cmd.Flags().StringArrayVar(&f.settings, "config", nil, "setting of the plugin as name=value, with the value as JSON or plain text; repeatable")
	cmd.Flags().DurationVar(&f.length, "for", 0, "end after this time; 0 runs until Ctrl-C")
	cmd.Flags().BoolVar(&f.attach, "attach", false, "wait for a program that you start yourself, for example under a debugger")
	output.Flag(cmd.Flags(), &f.format, "text, or json for one object a line", output.Text, output.JSON)
	cmd.Flags().StringVar(&f.level, "log-level", "info", "lowest level of the log lines that are shown: debug, info, warn or error")
	return cmd
}

func (e verbs) runPlugin(ctx context.Context, binary string, f runFlags) error {
	switch {
	case f.length < 0:
		return command.Usagef("--for is %s, must be 0 or more", f.length)
	}
	path, err := filepath.Abs(binary)
	if err != nil {
		return command.Usage(err)
	}
	id, ok := plugin.ParseBinaryName(filepath.Base(path))
	if !ok {
		return command.Usagef("%s: a plugin's program is named %s<kind>-<name>, for example %sevict-lru", path, plugin.BinaryPrefix, plugin.BinaryPrefix)
	}
	settings, err := parseSettings(f.settings)
	if err != nil {
		return err
	}
	log, err := observe.NewLogger(e.Stdout, f.level, string(f.format))
	if err != nil {
		return command.Usage(err)
	}
	ctx, stop := command.UntilInterrupted(ctx)
	defer stop()
	catalog, _, err := e.catalog("", []string{filepath.Dir(path)}, log, nil)
	if err != nil {
		return err
	}
	t := &trial{id: id, catalog: catalog, log: log, changed: make(chan struct{}, 1)}
	spec := pluginhost.Spec{Mode: pluginhost.ModeSubprocess, Config: settings}
	if f.attach {
		t.supervision, spec.ByHand = patient, e.tellHow
	}
	return t.run(ctx, spec, f.length)
}

// attachTime bounds the wait for a program that is started by hand, and a call while a debugger holds it.
const attachTime = time.Hour

// patient lets a debugger hold a plugin's process.
var patient = pluginhost.Supervision{
	StartTimeout: attachTime, CallTimeout: attachTime, ReplayTimeout: attachTime, StopTimeout: endTime, MaxTimeouts: -1, PulseEvery: -1,
}

// tellHow tells the operator how to start a program by hand.
func (e verbs) tellHow(h launch.ByHand) {
	fmt.Fprintf(e.Stderr, `Start the plugin in another terminal, for example with one of

  (. %[1]s && %[2]s > %[3]s)
  (. %[1]s && dlv exec --redirect stdout:%[3]s %[2]s)
  (. %[1]s && gdb -ex 'run > %[3]s' %[2]s)
  (. %[1]s && perf record -g %[2]s > %[3]s)

waiting for it, %[4]s at most; Ctrl-C ends the wait
`, h.Env, h.Program, h.Stdout, attachTime)
}

// parseSettings parses settings of the form name=value. Dots in the name separate levels.
func parseSettings(texts []string) (map[string]any, error) {
	out := map[string]any{}
	for _, text := range texts {
		name, raw, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, command.Usagef("--config %q must have the form name=value", text)
		}
		var value any
		if dec := json.NewDecoder(strings.NewReader(raw)); json.Valid([]byte(raw)) {
			dec.UseNumber() // The plugin gets numbers as they are written.
			if err := dec.Decode(&value); err != nil {
				return nil, command.Usage(err)
			}
		} else {
			value = raw
		}
		at, path := out, strings.Split(name, ".")
		for _, step := range path[:len(path)-1] {
			next, ok := at[step].(map[string]any)
			if !ok {
				next = map[string]any{}
				at[step] = next
			}
			at = next
		}
		at[path[len(path)-1]] = value
	}
	return out, nil
}

// trial is a plugin that runs without a master or store. It implements plugin.Host.
type trial struct {
	id      plugin.ID
	catalog *pluginhost.Catalog
	log     *slog.Logger
	changed chan struct{} // has an element if the state may have changed
	shown   pluginhost.Instance
	// supervision has the limits of a program that the host starts, unless it is set.
	supervision pluginhost.Supervision
}

// Logger implements plugin.Host.
func (t *trial) Logger() *slog.Logger { return t.log.With("plugin", t.id.String()) }

// Report implements plugin.Host.
func (t *trial) Report(plugin.Health) {
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// open opens the plugin and returns a call that polls it.
func (t *trial) open(ctx context.Context, spec pluginhost.Spec) (plugin.Component, func(context.Context) error, error) {
	p, err := t.catalog.Open(ctx, t.id, spec, t.supervision)
	switch p := p.(type) {
	case evict.Policy:
		return p, func(ctx context.Context) error { _, err := p.Stats(ctx); return err }, err
	case alloc.Allocator:
		return p, func(ctx context.Context) error { _, err := p.Alloc(ctx, nil); return err }, err
	}
	return p, func(context.Context) error { return nil }, err
}

const (
	// askEvery is the interval at which the plugin is polled.
	askEvery = time.Second
	// endTime bounds the stop of the plugin.
	endTime = 20 * time.Second
)

func (t *trial) run(ctx context.Context, spec pluginhost.Spec, length time.Duration) (err error) {
	p, ask, err := t.open(ctx, spec)
	if err != nil {
		return err
	}
	defer func() {
		last := t.instance()
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
		defer cancel()
		err = errors.Join(err, p.Stop(ending), t.catalog.Close(ending))
		if err == nil && last.State != plugin.StateOK {
			err = errs.New(errs.RPCFail, "", "%s was %s in the end: %s", t.id, last.State, output.Printable(last.Reason))
		}
		t.log.Info("plugin has ended", "event", "state", "plugin", t.id.String())
	}()
	if err := p.Start(ctx, t); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted while %s was starting: %w", t.id, err)
		}
		return err
	}
	t.poll(ctx, length, ask)
	return nil // The deferred function returns the error of a plugin that is not well.
}

// poll shows the state of the plugin until length is over, or forever if it is 0.
func (t *trial) poll(ctx context.Context, length time.Duration, ask func(context.Context) error) {
	if length > 0 {
		// Not a deadline: the plugin's side would see it as well, and could answer a call with it before
		// this side has ended.
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer time.AfterFunc(length, cancel).Stop()
		defer cancel()
	}
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		t.show()
		if t.shown.State == plugin.StateFailed {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-t.changed:
		case <-tick.C:
			if err := ask(ctx); err != nil && ctx.Err() == nil && t.instance().State == plugin.StateOK {
				t.log.Warn("plugin does not answer", "plugin", t.id.String(), "error", err)
			}
		}
	}
}

func (t *trial) instance() pluginhost.Instance {
	for _, in := range t.catalog.Instances() {
		if in.ID() == t.id {
			return in
		}
	}
	return pluginhost.Instance{Kind: t.id.Kind, Name: t.id.Name, State: plugin.StateStopped}
}

// show logs the state of the plugin if it has changed.
func (t *trial) show() {
	now, was := t.instance(), t.shown
	t.shown = now
	if now.State == was.State && now.Reason == was.Reason && now.PID == was.PID && now.Restarts == was.Restarts {
		return
	}
	args := []any{"event", "state", "plugin", t.id.String(), "state", string(now.State)}
	add := func(name string, value any, is bool) {
		if is {
			args = append(args, name, value)
		}
	}
	add("pid", now.PID, now.PID != 0)
	add("version", now.Version, now.Version != "")
	add("sha256", now.SHA256, now.SHA256 != "")
	add("restarts", now.Restarts, now.Restarts > 0)
	add("reason", now.Reason, now.Reason != "")
	for name, value := range now.Figures {
		add(name, value, true)
	}
	level := slog.LevelInfo
	if severity(now.State) > severity(plugin.StateOK) {
		level = slog.LevelWarn
	}
	t.log.Log(context.Background(), level, "plugin is "+string(now.State), args...)
}

package cli

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
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// runFlags are the flags of plugins run.
type runFlags struct {
	settings []string
	length   time.Duration
	format   output.Format
	level    string
}

func (e *env) pluginsRunCmd() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run BINARY",
		Short: "Run a plugin's program as a host does, and show its log and how it does, until Ctrl-C",
		Long: `Does what a master or store does with a plugin in a process of its own, without one of them:
checks who may have changed the file and what plugins.lock says of it, starts it with the
environment that plugins get, agrees on a contract version over mutual TLS, hands over its
settings, starts it, and asks it once a second whether it is there. One that ends is started
again with growing pauses, as a host would.

For authors, and to see why a plugin does not come up. The file has to be named
mooncake-plugin-<kind>-<name>. Exit code 1 where it does not start, or is not well in the end.`,
		Example: `  mooncake plugins run bin/mooncake-plugin-evict-lru
  mooncake plugins run ./mooncake-plugin-evict-fifo --config expected_objects=1000000 --for 10s
  mooncake plugins run bin/mooncake-plugin-transport-tcp --config 'advertise=["127.0.0.1"]' -o json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return command.Usagef("%s takes the path of one program, got %d arguments", cmd.CommandPath(), len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return e.runPlugin(cmd.Context(), args[0], f) },
	}
	cmd.Flags().StringArrayVar(&f.settings, "config", nil, "setting of the plugin as name=value, the value in JSON or a plain text; repeatable")
	cmd.Flags().DurationVar(&f.length, "for", 0, "end after this time; 0 for Ctrl-C")
	output.Flag(cmd.Flags(), &f.format, "text, or json for one object a line", output.Text, output.JSON)
	cmd.Flags().StringVar(&f.level, "log-level", "info", "least severe messages that are shown: debug, info, warn or error")
	return cmd
}

func (e *env) runPlugin(ctx context.Context, binary string, f runFlags) error {
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
	catalog, err := e.pluginCatalog("", []string{filepath.Dir(path)}, log)
	if err != nil {
		return err
	}
	t := &trial{id: id, catalog: catalog, log: log, stirred: make(chan struct{}, 1)}
	return t.run(ctx, pluginhost.Spec{Mode: pluginhost.ModeSubprocess, Config: settings}, f.length)
}

// parseSettings reads name=value, with dots in the name for what lies deeper.
func parseSettings(texts []string) (map[string]any, error) {
	out := map[string]any{}
	for _, text := range texts {
		name, raw, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, command.Usagef("--config %q must have the form name=value", text)
		}
		var value any
		if dec := json.NewDecoder(strings.NewReader(raw)); json.Valid([]byte(raw)) {
			dec.UseNumber() // Numbers reach the plugin as they are written.
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

// trial is a plugin that runs without a host that needs it. It is the plugin.Host.
type trial struct {
	id      plugin.ID
	catalog *pluginhost.Catalog
	log     *slog.Logger
	stirred chan struct{} // has an element when there may be something new to show
	shown   pluginhost.Instance
}

// Logger implements plugin.Host.
func (t *trial) Logger() *slog.Logger { return t.log.With("plugin", t.id.String()) }

// Report implements plugin.Host.
func (t *trial) Report(plugin.Health) {
	select {
	case t.stirred <- struct{}{}:
	default:
	}
}

// open makes the plugin, and the call that shows whether it is there.
func (t *trial) open(ctx context.Context, spec pluginhost.Spec) (plugin.Component, func(context.Context) error, error) {
	none := func(context.Context) error { return nil }
	switch t.id.Kind {
	case plugin.KindEvict:
		p, err := t.catalog.OpenEvict(ctx, t.id, spec, pluginhost.EvictOptions{})
		return p, func(ctx context.Context) error { _, err := p.Stats(ctx); return err }, err
	case plugin.KindAlloc:
		a, err := t.catalog.OpenAlloc(ctx, t.id, spec, pluginhost.AllocOptions{})
		return a, func(ctx context.Context) error { _, err := a.Alloc(ctx, nil); return err }, err
	default:
		x, err := t.catalog.OpenTransport(ctx, t.id, spec, pluginhost.TransportOptions{})
		return x, none, err
	}
}

const (
	// askEvery is how often the plugin is asked whether it is there.
	askEvery = time.Second
	// endTime bounds the end of the plugin.
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
	if length > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, length)
		defer cancel()
	}
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		t.show()
		if t.shown.State == plugin.StateFailed {
			return nil // It is said at the end.
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.stirred:
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

// show says how the plugin does, when that has changed.
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

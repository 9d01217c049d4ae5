package pluginhost

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/sdk/wire/kinds"
)

// Differences compares the settings in the manifest of a plugin with those that the plugin says it accepts, and returns
// a sentence for each difference. It starts the program, if the plugin is one, and makes nothing of it. A program that
// does not say what it accepts has no differences.
func (c *Catalog) Differences(ctx context.Context, id plugin.ID, spec Spec) ([]string, error) {
	m, err := c.Manifest(id, spec.Mode)
	if err != nil {
		return nil, err
	}
	accepted, err := c.Accepted(ctx, id, spec)
	if err != nil {
		return nil, err
	}
	return plugin.Differences(m.ConfigSchema, accepted), nil
}

// Accepted returns the JSON Schema of the settings that a plugin says it accepts, nil if its program does not tell. It
// starts the program, if the plugin is one.
func (c *Catalog) Accepted(ctx context.Context, id plugin.ID, spec Spec) (json.RawMessage, error) {
	h, err := c.find(ctx, id.Kind, id, spec)
	switch {
	case err != nil:
		return nil, err
	case h.factory != nil:
		return h.factory.Settings()
	}
	p, err := c.attempt(ctx, h, spec, Supervision{})
	if err != nil {
		return nil, &OpenError{ID: id, Stage: StageLaunch, Err: err}
	}
	return p.Settings(), p.Close(ctx)
}

// TrySettings makes a plugin from each of the settings, over those of spec, starts it, and stops it. It returns why
// each was refused, nil if it was not: a start that fails for another reason than its settings accepts them. A process
// that refused settings gets the next ones, because a start costs much more than a refusal.
func (c *Catalog) TrySettings(ctx context.Context, id plugin.ID, spec Spec, bounds Supervision, all ...map[string]any) []error {
	out := make([]error, len(all))
	h, err := c.find(ctx, id.Kind, id, spec)
	t := trial{c: c, home: h, bounds: bounds.withDefaults()}
	defer t.end(ctx)
	for i, settings := range all {
		if err != nil {
			out[i] = err
			continue
		}
		one := spec
		one.Config = maps.Clone(spec.Config)
		if one.Config == nil {
			one.Config = map[string]any{}
		}
		maps.Copy(one.Config, settings)
		if refused := t.try(ctx, id, one); errs.CodeOf(refused) == errs.InvalidParams {
			out[i] = refused
		}
	}
	return out
}

// attempt starts the program of a plugin outside of a supervisor.
func (c *Catalog) attempt(ctx context.Context, h home, spec Spec, bounds Supervision) (launched[plugin.Component], error) {
	var none launched[plugin.Component]
	kind, err := kinds.Of(h.entry.Kind)
	if err != nil {
		return none, err
	}
	p, err := starter[plugin.Component]{
		c: c, api: kind.API, entry: h.entry, spec: spec, bounds: bounds.withDefaults(),
		security: func() security.Settings { return security.Settings{} },
	}.start(ctx, c.logger(h.entry.ID()))
	if err != nil {
		return none, err
	}
	l, ok := p.(launched[plugin.Component])
	if !ok {
		return none, errs.New(errs.Internal, h.entry.Home, "the process is a %T", p)
	}
	return l, nil
}

// trial is a series of attempts. Its process has refused everything so far.
type trial struct {
	c       *Catalog
	home    home
	bounds  Supervision
	process *launched[plugin.Component]
}

func (t *trial) try(ctx context.Context, id plugin.ID, spec Spec) error {
	ctx, cancel := context.WithTimeout(ctx, 2*t.bounds.StartTimeout+t.bounds.StopTimeout)
	defer cancel()
	if t.home.factory != nil {
		object, err := t.c.Open(ctx, id, spec, t.bounds)
		if err != nil {
			return err
		}
		return t.run(ctx, object)
	}
	text, err := settings(spec.Config)
	if err != nil {
		return err
	}
	again := t.process != nil
	if err = t.configure(ctx, spec, text); err != nil && again && errs.CodeOf(err) != errs.InvalidParams {
		t.end(ctx) // A program may take one configuration only.
		err = t.configure(ctx, spec, text)
	}
	if err == nil {
		err = t.run(ctx, t.process.Object())
		t.end(ctx)
	}
	return err
}

func (t *trial) configure(ctx context.Context, spec Spec, text []byte) error {
	if t.process == nil {
		p, err := t.c.attempt(ctx, t.home, spec, t.bounds)
		if err != nil {
			return err
		}
		t.process = &p
	}
	return t.process.Client().Configure(ctx, t.process.API(), text)
}

func (t *trial) run(ctx context.Context, object plugin.Component) error {
	err := object.Start(ctx, silent{})
	if stop := object.Stop(ctx); stop != nil && errs.CodeOf(err) != errs.InvalidParams {
		return stop
	}
	return err
}

// end ends the process, if there is one.
func (t *trial) end(ctx context.Context) {
	if t.process == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.bounds.StopTimeout)
	defer cancel()
	_ = t.process.Close(ctx) // It kills.
	t.process = nil
}

// silent is the host of a plugin whose settings are tried.
type silent struct{}

func (silent) Logger() *slog.Logger { return slog.New(slog.DiscardHandler) }
func (silent) Report(plugin.Health) {}

package assembly

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/ports"
	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// openTransport makes a transport with the settings of the configuration.
func (e *Engine) openTransport(id plugin.ID) (transfer.Carrier, error) {
	m, err := e.Catalog.Manifest(id, pluginhost.Mode(e.cfg.Plugins.Get(id).Mode))
	if err != nil {
		return transfer.Carrier{}, err
	}
	if err := e.allow(m); err != nil {
		return transfer.Carrier{}, err
	}
	s, err := e.transportSpec(m)
	if err != nil {
		return transfer.Carrier{}, err
	}
	t, err := e.Catalog.OpenTransport(context.Background(), id, s, pluginhost.TransportOptions{})
	if err != nil {
		return transfer.Carrier{}, err
	}
	// In a process of its own one may still need memory that has a descriptor.
	_, apart := t.(transfer.Renewing)
	return transfer.Carrier{
		Name: id.Name, Transport: t, Stalls: m.Has(transport.CapStall) && !apart, Guards: m.Has(transport.CapGuard) && !apart,
		Grants: m.Has(transport.CapGrants), Exempt: m.Has(transport.CapSameUser) || m.Name == string(config.DoorRDMA),
		LocalAny: m.Has(transport.CapLocalAny) && !(apart && m.Has(transport.CapNoForeign)),
	}, nil
}

// transportSpec gives a transport the settings it has for what the configuration says of
// the node, where the configuration says nothing of the transport's own: "advertise" the
// address that peers are told, "host" the address to bind, "port" and "port_max" the ports
// of the node, "devices" the network devices.
func (e *Engine) transportSpec(m plugin.Manifest) (pluginhost.Spec, error) {
	s := pluginhost.SpecOf(e.cfg.Plugins.Get(m.ID))
	node := e.cfg.Store
	var schema struct {
		Properties map[string]any `json:"properties"`
	}
	if err := json.Unmarshal(m.ConfigSchema, &schema); err != nil {
		return s, nil //nolint:nilerr // A plugin that does not tell its settings gets none.
	}
	settings := maps.Clone(s.Config)
	if settings == nil {
		settings = map[string]any{}
	}
	// A setting that has its default, which is empty for all of these, was not given.
	open := func(name string) bool { return schema.Properties[name] != nil && empty(settings[name]) }
	offer := func(name string, value any) {
		if open(name) {
			settings[name] = value
		}
	}
	host := cmp.Or(node.AdvertiseHost, ports.Host(node.LocalHostname))
	if !ports.IsWildcard(host) && host != "localhost" {
		offer("advertise", []any{host})
		offer("host", ports.BindFor(host))
	}
	if open("port") && schema.Properties["port_max"] != nil {
		offer("port", node.RPCMinPort)
		offer("port_max", node.RPCMaxPort)
	}
	if open("devices") {
		c, err := e.Devices.Choice()
		if err != nil {
			return s, err
		}
		e.matrix = c.Matrix
		offer("devices", anys(c.Devices))
	}
	s.Config = settings
	return s, nil
}

func anys(names []string) []any {
	out := make([]any, len(names))
	for i, n := range names {
		out[i] = n
	}
	return out
}

// startTransports starts the transports in the order of preference. One that is not
// required and does not start is left out with a warning; at least one has to.
func (e *Engine) startTransports(ctx context.Context) ([]transfer.Carrier, error) {
	var started []transfer.Carrier
	var failed error
	for _, c := range e.carriers {
		id := plugin.ID{Kind: plugin.KindTransport, Name: c.Name}
		err := c.Transport.Start(ctx, pluginhost.SecureHostOf(id, e.Log, e.security()))
		switch {
		case err == nil:
			started = append(started, c)
		case e.cfg.Plugins.Get(id).Required, wrongSettings(err):
			return nil, err
		default:
			e.leaveOut(c.Name, err)
			failed = errors.Join(failed, err)
		}
	}
	if len(started) == 0 {
		return nil, errs.WithHint(errs.Wrap(errs.TransferFail, "store: no transport is left", failed), "'mooncake plugins list' shows which there are")
	}
	return started, nil
}

// wrongSettings reports whether a plugin refused its settings, which is no matter of the
// machine. One in a process of its own does so when it is started.
func wrongSettings(err error) bool {
	var at *pluginhost.OpenError
	return errors.As(err, &at) && at.Stage == pluginhost.StageConfig && errs.CodeOf(err) == errs.InvalidParams
}

// leaveOut says that a transport is not used, and which one is in its place.
func (e *Engine) leaveOut(name string, err error) {
	instead := "none"
	if i := slices.Index(e.cfg.Store.Transports, name); i+1 < len(e.cfg.Store.Transports) {
		instead = e.cfg.Store.Transports[i+1]
	}
	e.Log.Warn("a transport is left out", "transport", name, "instead", instead, "error", err)
}

// empty reports whether a setting is missing, zero, or has no elements.
func empty(v any) bool {
	if v == nil {
		return true
	}
	r := reflect.ValueOf(v)
	return r.IsZero() || r.Kind() == reflect.Slice && r.Len() == 0
}

package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"net/netip"
	"reflect"
	"slices"

	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// openTransport makes a transport with the settings of the configuration.
func (f *fabric) openTransport(id plugin.ID) (transfer.Carrier, error) {
	m, err := f.catalog.Manifest(id, pluginhost.Mode(f.cfg.Plugins.Get(id).Mode))
	if err != nil {
		return transfer.Carrier{}, err
	}
	s, err := f.transportSpec(m)
	if err != nil {
		return transfer.Carrier{}, err
	}
	t, err := f.catalog.OpenTransport(context.Background(), id, s, pluginhost.TransportOptions{})
	if err != nil {
		return transfer.Carrier{}, err
	}
	// In a process of its own one may still need memory that has a descriptor.
	_, apart := t.(transfer.Renewing)
	return transfer.Carrier{
		Name: id.Name, Transport: t, Stalls: m.Has(transport.CapStall) && !apart, LocalAny: m.Has(transport.CapLocalAny) && !(apart && m.Has(transport.CapNoForeign)),
	}, nil
}

// transportSpec gives a transport the settings it has for what the configuration says of
// the node, where the configuration says nothing of the transport's own: "advertise" the
// address that peers are told, "host" the address to bind, "port" and "port_max" the ports
// of the node, "devices" the network devices.
func (f *fabric) transportSpec(m plugin.Manifest) (pluginhost.Spec, error) {
	s := spec(f.cfg.Plugins.Get(m.ID))
	node := f.cfg.Store
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
	host := cmp.Or(node.AdvertiseHost, hostPart(node.LocalHostname))
	if !isWildcard(host) && host != "localhost" {
		offer("advertise", []any{host})
		offer("host", bindFor(host))
	}
	if open("port") && schema.Properties["port_max"] != nil {
		offer("port", node.RPCMinPort)
		offer("port_max", node.RPCMaxPort)
	}
	if open("devices") {
		names, err := f.devices()
		if err != nil {
			return s, err
		}
		offer("devices", anys(names))
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

// hostPart returns the host of host or host:port.
func hostPart(name string) string {
	if h, _, err := net.SplitHostPort(name); err == nil {
		return h
	}
	return plainHost(name)
}

// bindFor is the address to listen on for peers that reach this node as host: loopback for
// a loopback address, so that a pool on one machine is not open to others, else all (""),
// since the name that peers use need not be an address of this machine.
func bindFor(host string) string {
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsLoopback() {
		return host
	}
	return ""
}

// startTransports starts the transports in the order of preference. One that is not
// required and does not start is left out with a warning; at least one has to.
func (f *fabric) startTransports(ctx context.Context) ([]transfer.Carrier, error) {
	var started []transfer.Carrier
	var failed error
	for _, c := range f.carriers {
		id := plugin.ID{Kind: plugin.KindTransport, Name: c.Name}
		err := c.Transport.Start(ctx, newHost(id, f.log))
		switch {
		case err == nil:
			started = append(started, c)
		case f.cfg.Plugins.Get(id).Required, wrongSettings(err):
			return nil, err
		default:
			f.leaveOut(c.Name, err)
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
func (f *fabric) leaveOut(name string, err error) {
	instead := "none"
	if i := slices.Index(f.cfg.Store.Transports, name); i+1 < len(f.cfg.Store.Transports) {
		instead = f.cfg.Store.Transports[i+1]
	}
	f.log.Warn("a transport is left out", "transport", name, "instead", instead, "error", err)
}

// empty reports whether a setting is missing, zero, or has no elements.
func empty(v any) bool {
	if v == nil {
		return true
	}
	r := reflect.ValueOf(v)
	return r.IsZero() || r.Kind() == reflect.Slice && r.Len() == 0
}

package rdma

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/blob"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/device"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/handshake"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/inbound"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/rail"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/verbs"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/x/advice"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
)

// Start implements plugin.Component. It fails, with what to do about it, where there is no
// library, no device, or none with a port that is up. A device that cannot be opened keeps
// its place and the others are used.
func (n *node) Start(ctx context.Context, host plugin.Host) error {
	return n.life.Start(func() error { return n.start(ctx, host) })
}

func (n *node) start(ctx context.Context, host plugin.Host) error {
	const op = "transport/rdma: start"
	if n.incarnation != 0 {
		return n.life.ErrStarted()
	}
	n.incarnation = transportkit.Incarnation()
	n.host, n.log = host, host.Logger()
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.share()
	err := n.openDevices()
	if err == nil {
		err = n.openListener(ctx)
	}
	if err != nil {
		n.cancel()
		n.closeDevices()
		return errs.WithClass(errs.ClassLocalDevice, op, err)
	}
	devices := make([]*device.Device, len(n.devices))
	for i, d := range n.devices {
		devices[i] = d.Device
	}
	n.regions.Open(devices, n.incarnation)
	for _, d := range n.devices {
		if d.Opened() {
			n.shared.Work.Go(d.Watch)
		}
	}
	n.shared.Work.Go(n.tidy)
	n.traffic.Go(func() { n.inbound.Serve(n.listener) })
	n.mu.Lock()
	n.life.Run()
	n.mu.Unlock()
	n.report()
	n.log.Info("listening", "address", n.listener.Addr().String(), "advertised", n.addrs, "devices", n.names(true))
	return nil
}

// share sets what devices, rails and accepted connections share.
func (n *node) share() {
	n.shared.Config, n.shared.Log, n.shared.Context = &n.cfg, n.log, n.ctx
	n.rails.Env = &rail.Env{
		Config: &n.cfg, Log: n.log, Context: n.ctx, Traffic: &n.traffic, Incarnation: n.incarnation, Label: n.label, Changed: n.touch,
	}
	s := &n.inbound
	s.Config, s.Log, s.Context, s.Traffic, s.Incarnation = &n.cfg, n.log, n.ctx, &n.traffic, n.incarnation
	s.Device = func(name string) *inbound.Pool {
		if d := n.deviceNamed(name); d != nil {
			return d.in
		}
		return nil
	}
}

// openDevices opens the library and the devices that the configuration allows.
func (n *node) openDevices() error {
	lib, err := verbs.Open(n.cfg.Library)
	if errors.Is(err, verbs.ErrUnavailable) {
		e := device.Advised(advice.NoLibrary(), err)
		return &errs.Error{Code: errs.NotSupported, Class: errs.ClassLocalDevice, Err: e}
	} else if err != nil {
		return err
	}
	if err := lib.ForkInit(); err != nil {
		n.log.Debug("fork support", "error", err)
	}
	infos, err := lib.Devices()
	if err != nil {
		return device.ExplainOpen(err)
	}
	if infos, err = n.allowed(infos); err != nil {
		return err
	}
	var failures, down []error
	for i, info := range infos {
		d := newAdapter(n, i, info)
		n.devices = append(n.devices, d)
		if err := d.Open(lib, info); err != nil {
			failures = append(failures, err)
			n.log.Warn("device is left out", "device", d.Name, "error", err)
			continue
		}
		if why := d.Why(); why != nil {
			down = append(down, why)
			n.log.Warn("device is down", "device", d.Name, "error", why)
		}
	}
	switch {
	case len(failures) == len(n.devices):
		return errors.Join(failures...)
	case len(failures)+len(down) == len(n.devices):
		return device.Advised(advice.NoPort(), append(down, failures...)...)
	}
	return nil
}

// allowed returns the devices to use, in the order of the library.
func (n *node) allowed(infos []verbs.DeviceInfo) ([]verbs.DeviceInfo, error) {
	if len(infos) == 0 {
		return nil, device.Advised(advice.NoDevice())
	}
	if len(n.cfg.Devices) > 0 {
		all := make([]string, len(infos))
		for i, info := range infos {
			all[i] = info.Name
		}
		for _, name := range n.cfg.Devices {
			if !slices.Contains(all, name) {
				return nil, errs.WithHint(fmt.Errorf("there is no RDMA device %q", name), "devices may name: %s", strings.Join(all, ", "))
			}
		}
		infos = slices.DeleteFunc(infos, func(i verbs.DeviceInfo) bool { return !slices.Contains(n.cfg.Devices, i.Name) })
	}
	infos = slices.DeleteFunc(infos, func(i verbs.DeviceInfo) bool { return len(i.Name) > blob.MaxName || strings.ContainsAny(i.Name, "@/") })
	if len(infos) > blob.MaxDevices {
		n.log.Warn("too many devices; the rest is left out", "found", len(infos), "used", blob.MaxDevices)
		infos = infos[:blob.MaxDevices]
	}
	return infos, nil
}

// openListener opens the bootstrap listener and tries whether the endpoint fits.
func (n *node) openListener(ctx context.Context) (err error) {
	if n.listener, err = n.cfg.Addresses().Listen(ctx, "transport/rdma: start", net.ListenConfig{KeepAliveConfig: handshake.KeepAlive()}); err != nil {
		return err
	}
	if n.addrs, err = n.cfg.Addresses().Advertised("transport/rdma: start", n.listener.Addr()); err == nil {
		_, err = n.endpoint()
	}
	if err != nil {
		_ = n.listener.Close()
		return errs.WithHint(err, "use fewer addresses in advertise, or fewer devices")
	}
	return nil
}

package rdma

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/blob"
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
	err := n.openDevices()
	if err == nil {
		err = n.openListener(ctx)
	}
	if err != nil {
		n.cancel()
		n.closeDevices()
		return errs.WithClass(errs.ClassLocalDevice, op, err)
	}
	for _, d := range n.devices {
		if d.ctx != nil {
			spawn(&n.work, d.watch)
		}
	}
	spawn(&n.work, n.tidy)
	spawn(&n.traffic, n.accept)
	n.mu.Lock()
	n.life.Run()
	n.mu.Unlock()
	n.report()
	n.log.Info("listening", "address", n.listener.Addr().String(), "advertised", n.addrs, "devices", n.names(true))
	return nil
}

// openDevices opens the library and the devices that the configuration allows.
func (n *node) openDevices() error {
	lib, err := verbs.Open(n.cfg.Library)
	if errors.Is(err, verbs.ErrUnavailable) {
		e := advised(advice.NoLibrary(), err)
		return &errs.Error{Code: errs.NotSupported, Class: errs.ClassLocalDevice, Err: e}
	} else if err != nil {
		return err
	}
	if err := lib.ForkInit(); err != nil {
		n.log.Debug("fork support", "error", err)
	}
	infos, err := lib.Devices()
	if err != nil {
		return explainOpen(err)
	}
	if infos, err = n.allowed(infos); err != nil {
		return err
	}
	var failures, down []error
	for i, info := range infos {
		d := newDevice(n, i, info)
		n.devices = append(n.devices, d)
		if err := d.open(lib, info); err != nil {
			d.why = explainOpen(err)
			d.lost.Store(true)
			failures = append(failures, d.why)
			n.log.Warn("device is left out", "device", d.name, "error", err)
			continue
		}
		if d.ask(); d.why != nil {
			down = append(down, d.why)
			n.log.Warn("device is down", "device", d.name, "error", d.why)
		}
	}
	switch {
	case len(failures) == len(n.devices):
		return errors.Join(failures...)
	case len(failures)+len(down) == len(n.devices):
		return advised(advice.NoPort(), append(down, failures...)...)
	}
	return nil
}

// allowed returns the devices to use, in the order of the library.
func (n *node) allowed(infos []verbs.DeviceInfo) ([]verbs.DeviceInfo, error) {
	if len(infos) == 0 {
		return nil, advised(advice.NoDevice())
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
	if n.listener, err = n.cfg.addresses().Listen(ctx, "transport/rdma: start", net.ListenConfig{KeepAliveConfig: keepAlive()}); err != nil {
		return err
	}
	if n.addrs, err = n.cfg.addresses().Advertised("transport/rdma: start", n.listener.Addr()); err == nil {
		_, err = n.endpoint()
	}
	if err != nil {
		_ = n.listener.Close()
		return errs.WithHint(err, "use fewer addresses in advertise, or fewer devices")
	}
	return nil
}

// names lists the devices, or those that are up.
func (n *node) names(up bool) (out []string) {
	for _, d := range n.devices {
		if !up || d.up.Load() {
			out = append(out, d.name)
		}
	}
	return out
}

// deviceNamed returns the device with that name, nil for none.
func (n *node) deviceNamed(name string) *device {
	for _, d := range n.devices {
		if d.name == name {
			return d
		}
	}
	return nil
}

// report tells the host how the devices are, when that has changed.
func (n *node) report() {
	n.tell.Lock()
	defer n.tell.Unlock()
	h := plugin.Health{State: plugin.StateOK}
	var why []string
	for _, d := range n.devices {
		if !d.up.Load() {
			why = append(why, d.unusable().Error())
		}
	}
	if len(why) > 0 {
		h = plugin.Health{State: plugin.StateDegraded, Reason: strings.Join(why, "; ")}
	}
	n.mu.Lock()
	news := h != n.health && n.life.Running()
	if news {
		n.health = h
	}
	n.mu.Unlock()
	if news {
		n.host.Report(h)
	}
}

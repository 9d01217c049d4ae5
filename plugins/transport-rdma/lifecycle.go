package rdma

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/blob"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/device"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/handshake"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/inbound"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/memory"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/rail"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/verbs"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/x/advice"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
)

var (
	_ transport.Transport = (*node)(nil)
	_ transport.Upstream  = (*node)(nil)
	_ transport.Changing  = (*node)(nil)
)

// Start implements plugin.Component. It fails, with what to do about it, where there is no
// library, no device, or none with a port that is up. A device that cannot be opened keeps
// its place and the others are used.
func (n *node) Start(ctx context.Context, host plugin.Host) error {
	return n.life.Start(func() error { return n.start(ctx, host) })
}

func (n *node) start(ctx context.Context, host plugin.Host) error {
	const op = "transport/rdma: start"
	env := &n.env
	if env.Incarnation != 0 {
		return n.life.ErrStarted()
	}
	n.host = host
	env.Config, env.Log, env.Incarnation = &n.cfg, host.Logger(), transportkit.Incarnation()
	env.Context, n.cancel = context.WithCancel(context.Background())
	env.Label, env.Changed = n.label, n.touch
	n.rails.Env, n.inbound.Env = env, env
	n.inbound.Device = func(name string) *inbound.Pool {
		if d := n.deviceNamed(name); d != nil {
			return d.in
		}
		return nil
	}
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
	var up []string
	for i, d := range n.devices {
		devices[i] = d.Device
		if d.Opened() {
			env.Work.Go(d.Watch)
		}
		if d.Up.Load() {
			up = append(up, d.Name)
		}
	}
	n.regions = memory.New(env, devices)
	env.Work.Go(n.tidy)
	env.Traffic.Go(func() { n.inbound.Serve(n.listener) })
	n.mu.Lock()
	n.life.Run()
	n.mu.Unlock()
	n.report()
	env.Log.Info("listening", "address", n.listener.Addr().String(), "advertised", n.addrs, "devices", up)
	return nil
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
		n.env.Log.Debug("fork support", "error", err)
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
		d := newAdapter(&n.env, i, info, n.report)
		n.devices = append(n.devices, d)
		if err := d.Open(lib, info); err != nil {
			failures = append(failures, err)
			n.env.Log.Warn("device is left out", "device", d.Name, "error", err)
			continue
		}
		if !d.Up.Load() {
			down = append(down, d.Unusable())
			n.env.Log.Warn("device is down", "device", d.Name, "error", d.Unusable())
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
		n.env.Log.Warn("too many devices; the rest is left out", "found", len(infos), "used", blob.MaxDevices)
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

// tidy closes idle connections, and reads the state of devices that are down in case an event was
// lost.
func (n *node) tidy() {
	const probe = time.Second
	idle := time.Duration(n.cfg.IdleTimeout)
	every := min(probe, max(idle/4, 10*time.Millisecond))
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-n.env.Context.Done():
			return
		case now := <-t.C:
			for _, d := range n.devices {
				if d.Opened() && !d.Up.Load() {
					d.Refresh()
				}
				d.out.CloseIdle(now.Add(-idle))
			}
		}
	}
}

// Stop implements plugin.Component. Operations in flight fail, peers are told, and every
// object of the devices is freed. All waits inside are bounded by flush_timeout and
// confirm_timeout.
func (n *node) Stop(ctx context.Context) error {
	return n.life.Stop(ctx, func() error { return n.free(ctx) })
}

func (n *node) free(ctx context.Context) error {
	n.mu.Lock()
	paths := slices.Collect(maps.Keys(n.paths))
	n.mu.Unlock()
	_ = n.listener.Close()
	n.cancel()
	for _, p := range paths {
		n.env.Traffic.Go(func() { _ = p.Close(ctx) })
	}
	for _, d := range n.devices {
		d.endAll(rail.ErrStopping("transport/rdma: "+d.Name), handshake.EndStopping)
	}
	n.env.Traffic.Wait()
	n.regions.Close()
	n.closeDevices()
	return nil
}

// closeDevices frees the devices and waits for their goroutines.
func (n *node) closeDevices() {
	for _, d := range n.devices {
		d.Close()
	}
	n.env.Work.Wait()
}

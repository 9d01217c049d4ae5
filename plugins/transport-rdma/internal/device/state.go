package device

import (
	"context"
	"errors"
	"fmt"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/gid"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/verbs"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/x/advice"
)

// Watch handles the events of the device until it is closed.
func (d *Device) Watch() {
	for {
		e, err := d.ctx.NextEvent(d.env.Context)
		switch {
		case err == nil:
			d.handle(e)
		case errors.Is(err, verbs.ErrClosed), errors.Is(err, context.Canceled):
			return
		default:
			d.fail(fmt.Errorf("events: %w", err))
			return
		}
	}
}

func (d *Device) handle(e verbs.Event) {
	d.env.Events.Add(1)
	d.env.Log.Info("event", "device", d.Name, "event", e.Type.String(), "port", e.Port, "qp", e.QP)
	if e.Port != 0 && e.Port != d.env.Config.IBPort {
		return
	}
	switch e.Type {
	case verbs.EventPortError, verbs.EventPortActive, verbs.EventLIDChange, verbs.EventGIDChange,
		verbs.EventPKeyChange, verbs.EventSMChange, verbs.EventClientRereg:
		d.Refresh()
	case verbs.EventQPFatal, verbs.EventQPRequest, verbs.EventQPAccess:
		if p := d.tags.get(e.Tag); p != nil { // Else it was destroyed in the meantime.
			p.owner.Failed(e.Type, fmt.Errorf("%s reported: %s", d.Name, e.Type))
		}
	case verbs.EventCQError, verbs.EventDeviceFatal, verbs.EventWQFatal:
		d.fail(fmt.Errorf("%s reported: %s; it is out of use until the next start", d.Name, e.Type))
	}
}

// Refresh reads the port again and reports whether its state or address changed. The connections
// of a port that went down or got another address end. Refresh is called for an event, and by a
// caller for whom the address did not work.
func (d *Device) Refresh() (changed bool) {
	if !d.Query() {
		return false
	}
	cause := errors.New("the address of the device has changed")
	if d.Up.Load() {
		d.env.Log.Info("device is up", "device", d.Name, "gid", d.Address().Text)
	} else {
		cause = d.Unusable()
		d.env.Log.Warn("device is down", "device", d.Name, "error", cause)
	}
	d.changed(errs.WithClass(errs.ClassTransientPath, "transport/rdma: "+d.Name, cause))
	return true
}

// fail takes the device out of use until the next start.
func (d *Device) fail(err error) {
	if d.env.Context.Err() != nil {
		return
	}
	d.mu.Lock()
	first := !d.Lost.Load()
	if first {
		d.why = err
		d.Up.Store(false) // First: regions leave out a device that is lost, operations one that is not up.
		d.Lost.Store(true)
	}
	d.mu.Unlock()
	if !first {
		return
	}
	d.env.Log.Error("device failed", "device", d.Name, "error", err)
	d.changed(errs.WithClass(errs.ClassLocalDevice, "transport/rdma: "+d.Name, err))
}

// Query reads the present state of port and address. changed says that peers must learn of it.
func (d *Device) Query() (changed bool) {
	d.asking.Lock()
	defer d.asking.Unlock()
	port, addr, why := d.read()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.Lost.Load() {
		return false
	}
	changed = d.Up.Load() != (why == nil) || why == nil && (addr.GID != d.addr.GID || addr.Index != d.addr.Index || port.LID != d.port.LID)
	d.why = why
	if why == nil {
		d.port, d.addr = port, addr
	}
	d.Up.Store(why == nil)
	return changed
}

// read reads port and address; why says why the device cannot be used now.
func (d *Device) read() (port verbs.PortAttr, addr gid.Entry, why error) {
	cfg := d.env.Config
	port, err := d.ctx.QueryPort(cfg.IBPort)
	if err != nil {
		return port, addr, err
	}
	if !port.Active {
		return port, addr, fmt.Errorf("port %d of %s is down", cfg.IBPort, d.Name)
	}
	if cfg.GIDIndex >= 0 {
		addr, err = d.ctx.GID(cfg.IBPort, cfg.GIDIndex)
		if err != nil || addr.GID.Zero() {
			return port, addr, Advised(advice.NoGID(d.Name, cfg.IBPort, cfg.GIDIndex))
		}
		return port, addr, nil
	}
	table, err := d.ctx.GIDs(cfg.IBPort)
	if err != nil {
		return port, addr, err
	}
	addr, ok := gid.Best(table)
	if !ok {
		return port, addr, Advised(advice.NoGID(d.Name, cfg.IBPort, -1))
	}
	return port, addr, nil
}

package rdma

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/verbs"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// watch handles what happens to the device until it is closed.
func (d *device) watch() {
	for {
		e, err := d.ctx.NextEvent(d.n.ctx)
		switch {
		case err == nil:
			d.happened(e)
		case errors.Is(err, verbs.ErrClosed), errors.Is(err, context.Canceled):
			return
		default:
			d.fail(fmt.Errorf("events: %w", err))
			return
		}
	}
}

func (d *device) happened(e verbs.Event) {
	d.n.stats.events.Add(1)
	d.n.log.Info("event", "device", d.name, "event", e.Type.String(), "port", e.Port, "qp", e.QP)
	if e.Port != 0 && e.Port != d.n.cfg.IBPort {
		return
	}
	switch e.Type {
	case verbs.EventPortError, verbs.EventPortActive, verbs.EventLIDChange, verbs.EventGIDChange,
		verbs.EventPKeyChange, verbs.EventSMChange, verbs.EventClientRereg:
		d.refresh()
	case verbs.EventQPFatal, verbs.EventQPRequest, verbs.EventQPAccess:
		d.broken(e)
	case verbs.EventCQError, verbs.EventDeviceFatal, verbs.EventWQFatal:
		d.fail(fmt.Errorf("%s reported: %s; it is out of use until the next start", d.name, e.Type))
	}
}

// refresh looks at the port again and reports whether something is different.
// Connections do not outlive a port that went down or got another address. It is called
// for an event, and by whoever finds that the address does not work.
func (d *device) refresh() (changed bool) {
	if !d.ask() {
		return false
	}
	if d.up.Load() {
		d.n.log.Info("device is up", "device", d.name, "gid", d.here().text)
		d.endAll(errs.WithClass(errs.ClassTransientPath, "transport/rdma: "+d.name, errors.New("the address of the device has changed")), endDevice)
	} else {
		why := d.unusable()
		d.n.log.Warn("device is down", "device", d.name, "error", why)
		d.endAll(errs.WithClass(errs.ClassTransientPath, "transport/rdma: "+d.name, why), endDevice)
	}
	d.n.report()
	d.n.touch()
	return true
}

// fail takes the device out of use until the next start.
func (d *device) fail(err error) {
	if d.n.ctx.Err() != nil {
		return
	}
	d.mu.Lock()
	first := !d.lost.Load()
	if first {
		d.why = err
		d.up.Store(false) // First: regions leave out a device that is lost, operations one that is not up.
		d.lost.Store(true)
	}
	d.mu.Unlock()
	if !first {
		return
	}
	d.n.log.Error("device failed", "device", d.name, "error", err)
	d.endAll(errs.WithClass(errs.ClassLocalDevice, "transport/rdma: "+d.name, err), endDevice)
	d.n.report()
	d.n.touch()
}

// broken ends the connection of a queue pair that failed.
func (d *device) broken(e verbs.Event) {
	p := d.n.tags.get(e.Tag)
	switch {
	case p == nil: // Destroyed meanwhile.
	case p.accepted != nil && e.Type != verbs.EventQPFatal:
		// The peer asked for what it may not have. Its device was told so, and it gives the
		// connection up.
	case p.accepted != nil:
		if p.accepted.published() {
			p.accepted.end(endDevice)
		}
	case e.Type == verbs.EventQPFatal:
		p.conn.end(errs.WithClass(errs.ClassLocalDevice, p.conn.link.name, fmt.Errorf("%s reported: %s", d.name, e.Type)), false)
	default:
		// A peer of upstream asked for what it may not have; this side's work goes on anew.
		p.conn.end(errs.WithClass(errs.ClassTransientPath, p.conn.link.name, fmt.Errorf("%s reported: %s", d.name, e.Type)), false)
	}
}

// tidy closes idle connections, and looks after devices that are down in case an event was
// lost.
func (n *node) tidy() {
	const probe = time.Second
	every := min(probe, max(n.cfg.IdleTimeout/4, 10*time.Millisecond))
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-n.ctx.Done():
			return
		case now := <-t.C:
			for _, d := range n.devices {
				if d.ctx != nil && !d.up.Load() {
					d.refresh()
				}
				d.closeIdle(now.Add(-n.cfg.IdleTimeout))
			}
		}
	}
}

// closeIdle ends connections to our own nodes that had no work since then. One of upstream
// may be in use by the peer, which this side does not see.
func (d *device) closeIdle(since time.Time) {
	d.mu.Lock()
	conns := d.conns.All()
	d.mu.Unlock()
	for _, c := range conns {
		k := c.link
		k.mu.Lock()
		idle := k.server == "" && k.conn == c && c.ready && k.load.Load() == 0 && c.used.Before(since)
		k.mu.Unlock()
		if idle {
			c.retire("it was idle")
		}
	}
}

package rdma

import (
	"context"
	"maps"
	"slices"
)

// Stop implements plugin.Component. Operations under way fail, peers are told, and every
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
		spawn(&n.traffic, func() { _ = p.Close(ctx) })
	}
	for _, d := range n.devices {
		d.endAll(errStopping("transport/rdma: "+d.name), endStopping)
	}
	n.traffic.Wait()
	n.closeRegions()
	n.mu.Lock()
	zombies := n.zombies
	n.zombies = nil
	n.mu.Unlock()
	n.destroy(zombies)
	n.closeDevices()
	return nil
}

// closeRegions withdraws every region. Nobody registers or withdraws any more.
func (n *node) closeRegions() {
	for _, r := range n.regions.all() {
		n.regions.deactivate(r)
		if err := r.withdraw(); err != nil {
			n.log.Error("memory could not be withdrawn", "region", r.id, "error", err)
		}
		n.regions.forget(r)
	}
}

// closeDevices frees the devices and waits for their goroutines.
func (n *node) closeDevices() {
	for _, d := range n.devices {
		d.close()
	}
	n.work.Wait()
}

// close frees what the device was opened for. Safe on a mere place.
func (d *device) close() {
	queues := d.list()
	note := func(what string, err error) {
		if err != nil {
			d.n.log.Error("not freed", "device", d.name, "what", what, "error", err)
		}
	}
	for _, q := range queues {
		note("completion queue", q.cq.Close())
	}
	if d.pd != nil {
		note("protection domain", d.pd.Close())
	}
	if d.ctx != nil {
		note("device", d.ctx.Close())
	}
}

// endAll ends every connection of the device, with what operations under way fail with and
// what peers are told.
func (d *device) endAll(cause error, why byte) {
	d.mu.Lock()
	conns := d.conns.All()
	accepted := slices.Collect(maps.Keys(d.accepted))
	d.mu.Unlock()
	for _, c := range conns {
		c.end(cause, why == endStopping)
	}
	for _, a := range accepted {
		a.end(why)
	}
}

// end kills a connection, unless it is still being made and goes on to find out by itself.
func (c *conn) end(cause error, stopping bool) {
	k := c.link
	var done opList
	k.mu.Lock()
	if c.established.Load() || k.conn == c {
		c.kill(cause, false)
	}
	if stopping {
		k.failWaiting(cause, &done)
	} else {
		k.pump(&done)
	}
	k.mu.Unlock()
	done.finish()
}

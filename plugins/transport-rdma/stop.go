package rdma

import (
	"context"
	"maps"
	"slices"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/handshake"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/rail"
)

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
		n.traffic.Go(func() { _ = p.Close(ctx) })
	}
	for _, d := range n.devices {
		d.endAll(rail.ErrStopping("transport/rdma: "+d.Name), handshake.EndStopping)
	}
	n.traffic.Wait()
	n.regions.Close(n.log)
	n.closeDevices()
	return nil
}

// closeDevices frees the devices and waits for their goroutines.
func (n *node) closeDevices() {
	for _, d := range n.devices {
		d.Close()
	}
	n.shared.Work.Wait()
}

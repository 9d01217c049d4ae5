package rdma

import (
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/device"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/handshake"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/inbound"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/rail"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/verbs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// adapter is a device with its connections: those that this side made, and those that peers made.
type adapter struct {
	*device.Device
	n   *node
	out *rail.Pool
	in  *inbound.Pool
}

func newAdapter(n *node, index int, info verbs.DeviceInfo) *adapter {
	a := &adapter{n: n}
	a.Device = device.New(&n.shared, a, index, info)
	a.out = rail.NewPool(&n.cfg, a.Device)
	a.in = inbound.NewPool(n.ctx, &n.cfg, a.Device)
	return a
}

// Changed implements device.Owner.
func (a *adapter) Changed(cause error) {
	a.endAll(cause, handshake.EndDevice)
	a.n.report()
	a.n.touch()
}

// endAll ends every connection of the device, with what operations in flight fail with and
// what peers are told.
func (a *adapter) endAll(cause error, why byte) {
	a.out.EndAll(cause, why == handshake.EndStopping)
	a.in.EndAll(why)
}

// tidy closes idle connections, and reads the state of devices that are down in case an event was
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
				if d.Opened() && !d.Up.Load() {
					d.Refresh()
				}
				d.out.CloseIdle(now.Add(-n.cfg.IdleTimeout))
			}
		}
	}
}

// deviceNamed returns the device with that name, nil for none.
func (n *node) deviceNamed(name string) *adapter {
	for _, d := range n.devices {
		if d.Name == name {
			return d
		}
	}
	return nil
}

// names lists the devices, or those that are up.
func (n *node) names(up bool) (out []string) {
	for _, d := range n.devices {
		if !up || d.Up.Load() {
			out = append(out, d.Name)
		}
	}
	return out
}

// report tells the host how the devices are, when that has changed.
func (n *node) report() {
	n.tell.Lock()
	defer n.tell.Unlock()
	h := plugin.Health{State: plugin.StateOK}
	var why []string
	for _, d := range n.devices {
		if !d.Up.Load() {
			why = append(why, d.Unusable().Error())
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

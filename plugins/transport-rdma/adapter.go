package rdma

import (
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/device"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/handshake"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/inbound"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/rail"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/verbs"
)

// adapter is a device with its connections: those that this side made, and those that peers made.
type adapter struct {
	*device.Device
	out *rail.Pool
	in  *inbound.Pool
}

// newAdapter returns a device that is not open yet. report is called when it went down or has
// another address, once its connections were told to end.
func newAdapter(env *device.Env, index int, info verbs.DeviceInfo, report func()) *adapter {
	a := &adapter{}
	a.Device = device.New(env, index, info, func(cause error) {
		a.endAll(cause, handshake.EndDevice)
		report()
		env.Changed()
	})
	a.out, a.in = rail.NewPool(env, a.Device), inbound.NewPool(env, a.Device)
	return a
}

// endAll ends every connection of the device, with what operations in flight fail with and
// what peers are told.
func (a *adapter) endAll(cause error, why byte) {
	a.out.EndAll(cause, why == handshake.EndStopping)
	a.in.EndAll(why)
}

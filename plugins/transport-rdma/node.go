package rdma

import (
	"context"
	"net"
	"strings"
	"sync"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/blob"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/device"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/inbound"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/memory"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/rail"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
)

// node implements transport.Transport.
type node struct {
	cfg     Config
	changed chan struct{} // see Changed

	life transportkit.Lifecycle
	tell sync.Mutex // held by report, so that the latest health is told last

	// Set by Start, then constant.
	env      device.Env
	cancel   context.CancelFunc // of env.Context
	host     plugin.Host
	listener net.Listener
	addrs    []string
	devices  []*adapter
	regions  *memory.Registry
	rails    rail.Table
	inbound  inbound.Server

	mu     sync.Mutex
	name   string // see Join
	paths  map[transport.Path]struct{}
	health plugin.Health
}

func newNode(cfg Config) *node {
	n := &node{cfg: cfg, changed: make(chan struct{}, 1), paths: map[transport.Path]struct{}{}}
	n.life.Init(&n.mu, "transport/rdma")
	return n
}

// Changed implements transport.Changing.
func (n *node) Changed() <-chan struct{} { return n.changed }

// touch tells the host that endpoint, segment or rails may be different now.
func (n *node) touch() {
	select {
	case n.changed <- struct{}{}:
	default:
	}
}

// begin is an error outside Start and Stop. Stop waits for the calls that had none: they end with
// env.Traffic.Done.
func (n *node) begin(op string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.life.Require(op); err != nil {
		return err
	}
	n.env.Traffic.Add(1)
	return nil
}

func (n *node) endpoint() ([]byte, error) {
	e := blob.Endpoint{Incarnation: n.env.Incarnation, Addrs: n.addrs}
	for _, d := range n.devices {
		e.Devices = append(e.Devices, d.Describe())
	}
	return e.Encode()
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

package reference

import (
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/transporttest"
)

// Network is the directory in which nodes find each other. It is safe for concurrent use.
type Network struct {
	mu    sync.Mutex
	nodes map[string]*node // by name; nil for a name whose node never answers
	names int
}

// NewNetwork makes a network without nodes.
func NewNetwork() *Network { return &Network{nodes: map[string]*node{}} }

// Config is the configuration of a node.
type Config struct {
	// Name is the name by which peers find the node; if empty, the network chooses one.
	Name string `json:"name"`
	// Window is the fill level in bytes at which a path stops accepting. The last accepted
	// operation may exceed it.
	Window int `json:"window"`
	// LocalAny makes Op.Local any memory of the process, as with transport.CapLocalAny.
	LocalAny bool `json:"local_any"`
}

// Validate implements plugin.Config.
func (c *Config) Validate() error {
	if c.Window < 1 {
		return fmt.Errorf("window is %d, must be at least 1 byte", c.Window)
	}
	return nil
}

// window is the default of Config.Window.
const window = 256 << 10

// Factory makes the nodes of the network.
func (n *Network) Factory() transport.Factory {
	m := plugin.Manifest{
		Format: 1, ID: plugin.ID{Kind: plugin.KindTransport, Name: "reference"}, Version: "1.0.0", API: transport.API(),
		Summary: "Copies between nodes of one process", Stability: plugin.Stable, Capabilities: []plugin.Capability{transport.CapGuard, transport.CapGrants},
	}
	return transport.Define(m, func() *Config { return &Config{Window: window} }, func(c *Config) (transport.Transport, error) {
		return &node{net: n, cfg: *c}, nil
	})
}

// Options returns the options with which the suite tests such nodes.
func (n *Network) Options() []transporttest.Option {
	return []transporttest.Option{
		transporttest.WithLimit(window),
		transporttest.WithRestart(func(c plugin.Config, old transport.Endpoint) plugin.Config {
			c.(*Config).Name = string(old.Blob[len(magic):])
			return c
		}),
		transporttest.WithFrozen(func(_ conformance.TB, live transport.Endpoint) transport.Endpoint {
			return transport.Endpoint{Blob: []byte(magic + n.join("", nil)), Incarnation: live.Incarnation}
		}),
	}
}

// join adds a node under a name, or under a new name if that is empty.
func (n *Network) join(name string, x *node) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if name == "" {
		n.names++
		name = fmt.Sprintf("node-%d", n.names)
	}
	n.nodes[name] = x
	return name
}

func (n *Network) leave(name string, x *node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.nodes[name] == x {
		delete(n.nodes, name)
	}
}

// find returns the node of a name and whether the name is known. The node is nil if it never
// answers.
func (n *Network) find(name string) (x *node, there bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	x, there = n.nodes[name]
	return x, there
}

// random returns a number that is not 0.
func random() uint64 { return rand.Uint64() | 1 }

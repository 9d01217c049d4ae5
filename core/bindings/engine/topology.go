package engine

import (
	"os"

	"github.com/mooncake-go/mooncake/core/bindings/settings"
	"github.com/mooncake-go/mooncake/core/topology"
)

// Machine returns the devices of this machine and those that an engine would use. devices are the
// RDMA devices to use, separated by commas, or "" for all. The environment applies as it does for
// an engine.
func Machine(src settings.Source, devices string) (topology.Machine, topology.Choice, error) {
	o := Options{Name: "localhost", Metadata: "P2PHANDSHAKE", Protocol: "rdma", Devices: devices}
	set, err := o.load(src)
	if err != nil {
		return topology.Machine{}, topology.Choice{}, err
	}
	choose, err := topology.FromConfig(set.Config.Store)
	if err != nil {
		return topology.Machine{}, topology.Choice{}, err
	}
	m, err := topology.Discover(os.DirFS("/"))
	if err != nil {
		return topology.Machine{}, topology.Choice{}, err
	}
	c, err := topology.Choose(m, choose)
	return m, c, err
}

// Topology returns the matrix of this machine's devices as JSON: for each location of memory the
// preferred devices and the other reachable ones. It omits devices that do not exist; if no device
// of the list exists, every location has none.
func Topology(src settings.Source, devices string) (string, error) {
	m, c, err := Machine(src, devices)
	if err != nil && len(m.Nodes) > 0 { // None of the devices exists.
		m.NICs = nil
		c, err = topology.Choose(m, topology.Options{})
	}
	if err != nil {
		return "", err
	}
	return c.Matrix.String(), nil
}

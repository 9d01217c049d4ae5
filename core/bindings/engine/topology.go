package engine

import (
	"os"

	"github.com/mooncake-go/mooncake/core/app"
	"github.com/mooncake-go/mooncake/core/bindings/settings"
	"github.com/mooncake-go/mooncake/core/topology"
)

// Machine is what this machine has, and what an engine would use of it: devices are the
// RDMA devices to use, separated by commas, "" for all; the environment counts as for an
// engine.
func Machine(src settings.Source, devices string) (topology.Machine, topology.Choice, error) {
	o := Options{Name: "localhost", Metadata: "P2PHANDSHAKE", Protocol: "rdma", Devices: devices}
	set, err := o.load(src)
	if err != nil {
		return topology.Machine{}, topology.Choice{}, err
	}
	choose, err := app.DeviceOptions(set.Config.Store)
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

// Topology is the matrix of this machine's devices as JSON: for each location of memory the
// devices that it prefers and the others that it reaches. Devices that are not there are not
// in it, so that with a list of such every location has none.
func Topology(src settings.Source, devices string) (string, error) {
	m, c, err := Machine(src, devices)
	if err != nil && len(m.Nodes) > 0 { // None of the devices is there.
		m.NICs = nil
		c, err = topology.Choose(m, topology.Options{})
	}
	if err != nil {
		return "", err
	}
	return c.Matrix.String(), nil
}

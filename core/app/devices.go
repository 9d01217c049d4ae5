package app

import (
	"os"
	"strings"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/topology"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// DeviceOptions is what the configuration of a node says about its RDMA devices.
func DeviceOptions(s config.Store) (topology.Options, error) {
	o := topology.Options{
		DeviceNames: s.DeviceNames,
		Auto:        map[string]topology.Auto{"on": topology.AutoOn, "off": topology.AutoOff}[s.AutoDiscovery],
		Filters:     s.DeviceFilter, Allow: s.DeviceAllow, Deny: s.DeviceExclude,
	}
	if s.TopologyFile != "" {
		custom, err := topology.ReadMatrix(s.TopologyFile)
		if err != nil {
			return topology.Options{}, err
		}
		o.Custom = &custom
	}
	return o, nil
}

// chooseDevices looks at the machine and says which of its RDMA devices transports may
// use. An empty choice is one that leaves it to them.
func chooseDevices(s config.Store) (topology.Choice, error) {
	o, err := DeviceOptions(s)
	if err != nil {
		return topology.Choice{}, err
	}
	machine, err := topology.Discover(os.DirFS("/"))
	if err != nil {
		return topology.Choice{}, errs.Wrap(errs.Internal, "look at the devices of this machine", err)
	}
	return topology.Choose(machine, o)
}

// devices chooses once, for all transports that take a choice.
func (f *fabric) devices() ([]string, error) {
	if !f.chosen {
		f.chosen = true
		var c topology.Choice
		if c, f.choiceErr = chooseDevices(f.cfg.Store); f.choiceErr == nil {
			f.deviceNames, f.matrix = c.Devices, c.Matrix
		}
		for _, w := range c.Warnings {
			f.log.Warn("network devices: " + strings.TrimSuffix(w, "."))
		}
	}
	return f.deviceNames, f.choiceErr
}

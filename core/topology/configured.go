package topology

import (
	"log/slog"
	"os"
	"strings"
	"sync"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// FromConfig returns the settings of a node about its RDMA devices.
func FromConfig(s config.Store) (Options, error) {
	o := Options{
		DeviceNames: s.DeviceNames,
		Auto:        map[string]Auto{"on": AutoOn, "off": AutoOff}[s.AutoDiscovery],
		Filters:     s.DeviceFilter, Allow: s.DeviceAllow, Deny: s.DeviceExclude,
	}
	if s.TopologyFile != "" {
		custom, err := ReadMatrix(s.TopologyFile)
		if err != nil {
			return Options{}, err
		}
		o.Custom = &custom
	}
	return o, nil
}

// Chooser chooses the RDMA devices of this process once, when a transport first asks for them.
type Chooser struct{ choose func() (Choice, error) }

// NewChooser makes a Chooser. It reads nothing yet.
func NewChooser(s config.Store, log *slog.Logger) *Chooser {
	return &Chooser{sync.OnceValues(func() (Choice, error) {
		o, err := FromConfig(s)
		if err != nil {
			return Choice{}, err
		}
		machine, err := Discover(os.DirFS("/"))
		if err != nil {
			return Choice{}, errs.Wrap(errs.Internal, "look at the devices of this machine", err)
		}
		c, err := Choose(machine, o)
		for _, w := range c.Warnings {
			log.Warn("network devices: " + strings.TrimSuffix(w, "."))
		}
		return c, err
	})}
}

// Choice returns the devices to use and their matrix. Without devices, the transports decide.
func (c *Chooser) Choice() (Choice, error) { return c.choose() }

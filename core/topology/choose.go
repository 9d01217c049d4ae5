package topology

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/matrix"
)

// Auto says whether RDMA devices are discovered or named.
type Auto int

// The ways.
const (
	// AutoUnset discovers where no device is named.
	AutoUnset Auto = iota
	// AutoOn discovers and ignores the names.
	AutoOn
	// AutoOff refuses to discover.
	AutoOff
)

// AnyDevice as a device name stands for discovery.
const AnyDevice = "auto-discovery"

// Options are what the configuration says about RDMA devices. The zero value uses all.
type Options struct {
	// DeviceNames are the devices to use; none, or AnyDevice, leaves them to discovery.
	DeviceNames []string
	// Auto is MC_MS_AUTO_DISC.
	Auto Auto
	// Filters is MC_MS_FILTERS: only these devices, where they are discovered.
	Filters []string
	// Allow is MC_TE_FILTERS: only these devices, however they were found.
	Allow []string
	// Deny is MC_TE_FILTERS_EXCLUDE: none of these devices.
	Deny []string
	// Custom is the matrix of MC_CUSTOM_TOPO_JSON, in place of the one that follows from the
	// machine; nil for none. Only devices that it names are used.
	Custom *matrix.Matrix
}

// Choice is which RDMA devices to use.
type Choice struct {
	Devices []string `json:"devices"`
	// Matrix is over exactly these devices.
	Matrix matrix.Matrix `json:"matrix"`
	// Left says why the other devices of the machine are not used.
	Left []Left `json:"left,omitempty"`
	// Warnings are about the options: names that do not exist, settings without effect.
	Warnings []string `json:"warnings,omitempty"`
}

// Left is a device that is not used.
type Left struct {
	Device string `json:"device"`
	Why    string `json:"why"`
}

// Choose applies the options to a machine. A machine without devices gives an empty choice.
// InvalidParams where the options leave none of the devices that are there, or do not allow
// to look for any; UnavailableInCurrentStatus, class local-device, where none of the devices
// that they name can be used now.
func Choose(m Machine, o Options) (Choice, error) {
	const op = "topology: choose the RDMA devices"
	s := &sieve{names: make([]string, len(m.NICs)), left: map[string]string{}}
	for i, n := range m.NICs {
		s.names[i] = n.Name
	}
	named := o.named()
	switch {
	case o.Auto == AutoOff && len(named) == 0:
		return Choice{}, errs.WithHint(errs.New(errs.InvalidParams, op, "discovery is off and no device is named"),
			"set store.device_names to some of: %s; or unset MC_MS_AUTO_DISC", s.there())
	case o.Auto == AutoOn && len(named) > 0:
		s.warn("device names %s are ignored: discovery is on (MC_MS_AUTO_DISC=1)", strings.Join(named, ","))
		named = nil
	}
	s.allow("not among the device names", named)
	if len(named) == 0 {
		s.allow("not in MC_MS_FILTERS", o.Filters)
	} else if len(o.Filters) > 0 {
		s.warn("MC_MS_FILTERS has no effect: the devices are named, not discovered")
	}
	s.allow("not in MC_TE_FILTERS", o.Allow)
	s.deny(o.Deny)
	if o.Custom != nil {
		s.custom(o.Custom.Devices())
	}
	wanted := s.rest()
	if len(wanted) == 0 && s.chose && len(m.NICs) > 0 {
		return Choice{}, errs.WithHint(errs.New(errs.InvalidParams, op, "the settings leave none of the devices of this machine"),
			"it has: %s", s.there())
	}
	for _, n := range m.NICs {
		if ok, why := n.Usable(); !ok && s.left[n.Name] == "" {
			s.left[n.Name] = why
			if s.chose {
				s.warn("%s is not used: %s", n.Name, why)
			}
		}
	}
	c := Choice{Devices: s.rest(), Warnings: s.warnings}
	for _, n := range m.NICs {
		if why := s.left[n.Name]; why != "" {
			c.Left = append(c.Left, Left{n.Name, why})
		}
	}
	if len(c.Devices) == 0 && len(named) > 0 {
		return c, unusable(op, wanted, s)
	}
	c.Matrix = m.Matrix(c.Devices)
	if o.Custom != nil {
		c.Matrix = o.Custom.Only(c.Devices)
	}
	return c, nil
}

// unusable is the error for named devices of which none can be used.
func unusable(op string, wanted []string, s *sieve) error {
	if len(wanted) == 0 {
		return errs.WithHint(errs.New(errs.InvalidParams, op, "none of the devices that are named exists: this machine has no RDMA device"),
			"load the driver, pass the devices to the container, or use tcp")
	}
	reasons := make([]string, len(wanted))
	for i, d := range wanted {
		reasons[i] = d + ": " + s.left[d]
	}
	return errs.WithClass(errs.ClassLocalDevice, "", errs.WithHint(
		errs.New(errs.UnavailableInCurrentStatus, op, "none of the devices that are named can be used: %s", strings.Join(reasons, "; ")),
		"mooncake doctor says what to do about each"))
}

// named returns the device names that were really given.
func (o Options) named() []string {
	names := SplitNames(strings.Join(o.DeviceNames, ","))
	if slices.Contains(names, AnyDevice) {
		return nil
	}
	return names
}

// SplitNames splits a comma list as the settings have them: blanks around names, empty names
// and repetitions do not count.
func SplitNames(list string) []string {
	var out []string
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "" && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// sieve holds the devices of a machine while the options are applied.
type sieve struct {
	names    []string          // all devices
	left     map[string]string // why a device is out
	warnings []string
	chose    bool // an option said which devices to use
}

func (s *sieve) warn(format string, args ...any) {
	s.warnings = append(s.warnings, fmt.Sprintf(format, args...))
}

// there lists the devices of the machine for a message.
func (s *sieve) there() string {
	if len(s.names) == 0 {
		return "none"
	}
	return strings.Join(s.names, ", ")
}

// known warns of names that are not devices of the machine.
func (s *sieve) known(names []string) {
	for _, n := range names {
		if !slices.Contains(s.names, n) {
			s.warn("there is no RDMA device %.80q; this machine has: %s", n, s.there())
		}
	}
}

func (s *sieve) take(why string, out func(name string) bool) {
	for _, n := range s.names {
		if s.left[n] == "" && out(n) {
			s.left[n] = why
		}
	}
}

func (s *sieve) allow(why string, list []string) {
	if list = SplitNames(strings.Join(list, ",")); len(list) == 0 {
		return
	}
	s.chose = true
	s.known(list)
	s.take(why, func(n string) bool { return !slices.Contains(list, n) })
}

func (s *sieve) deny(list []string) {
	list = SplitNames(strings.Join(list, ","))
	s.known(list)
	s.take("in MC_TE_FILTERS_EXCLUDE", func(n string) bool { return slices.Contains(list, n) })
}

// custom leaves the devices of a matrix. One without devices asks for none.
func (s *sieve) custom(devices []string) {
	s.chose = s.chose || len(devices) > 0
	s.known(devices)
	s.take("not in the custom matrix", func(n string) bool { return !slices.Contains(devices, n) })
}

// rest lists the devices that are still in.
func (s *sieve) rest() []string {
	return slices.DeleteFunc(slices.Clone(s.names), func(n string) bool { return s.left[n] != "" })
}

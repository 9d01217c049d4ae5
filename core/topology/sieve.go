package topology

import (
	"fmt"
	"slices"
	"strings"
)

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

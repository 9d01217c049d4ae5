package matrix

import (
	"maps"
	"slices"
)

// Wildcard is the location of memory of which nothing is known: every device is preferred.
const Wildcard = "*"

// Entry is what the matrix says of one location. A device that is named twice is chosen
// twice as often.
type Entry struct {
	Preferred, Available []string
}

// Matrix is a topology matrix. The zero value is empty. Safe for concurrent use: no method
// changes it.
type Matrix struct{ s *state }

// state is never written once a Matrix holds it.
type state struct {
	entries map[string]Entry
	devices []string // by index
	index   map[string]int
	off     map[string]bool // disabled devices
	live    map[string]lists
}

// lists are the enabled devices of a location, by index.
type lists struct{ preferred, available []int }

// New makes a matrix of entries. Devices are numbered by their first appearance, the
// locations taken in byte order. DeserializeFail for a name that Parse would refuse.
func New(entries map[string]Entry) (Matrix, error) {
	own := make(map[string]Entry, len(entries))
	for location, e := range entries {
		own[location] = Entry{slices.Clone(e.Preferred), slices.Clone(e.Available)}
	}
	var devices []string
	seen := map[string]bool{}
	for _, location := range slices.Sorted(maps.Keys(own)) {
		for _, d := range slices.Concat(own[location].Preferred, own[location].Available) {
			if !seen[d] {
				seen[d] = true
				devices = append(devices, d)
			}
		}
	}
	if err := check(own, devices); err != nil {
		return Matrix{}, err
	}
	return resolve(own, devices, nil), nil
}

// resolve numbers the devices of checked entries. It keeps all three.
func resolve(entries map[string]Entry, devices []string, off map[string]bool) Matrix {
	if len(entries) == 0 && len(devices) == 0 {
		return Matrix{}
	}
	s := &state{entries: entries, devices: devices, off: off, index: make(map[string]int, len(devices)), live: make(map[string]lists, len(entries)+1)}
	var all []int
	for i, d := range devices {
		s.index[d] = i
		if !off[d] {
			all = append(all, i)
		}
	}
	for location, e := range entries {
		s.live[location] = lists{s.enabled(e.Preferred), s.enabled(e.Available)}
	}
	s.live[Wildcard] = lists{preferred: all}
	return Matrix{s}
}

func (s *state) enabled(devices []string) []int {
	var out []int
	for _, d := range devices {
		if !s.off[d] {
			out = append(out, s.index[d])
		}
	}
	return out
}

// Empty reports whether the matrix has neither locations nor devices.
func (m Matrix) Empty() bool { return m.s == nil }

// Locations lists the locations in byte order.
func (m Matrix) Locations() []string {
	if m.s == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(m.s.entries))
}

// Entry returns what the matrix says of exactly this location, without disabled devices.
func (m Matrix) Entry(location string) (Entry, bool) {
	if m.s == nil {
		return Entry{}, false
	}
	e, ok := m.s.entries[location]
	return Entry{m.s.names(e.Preferred), m.s.names(e.Available)}, ok
}

func (s *state) names(devices []string) []string {
	return slices.DeleteFunc(slices.Clone(devices), func(d string) bool { return s.off[d] })
}

// Devices lists every device by index, also disabled ones.
func (m Matrix) Devices() []string {
	if m.s == nil {
		return nil
	}
	return slices.Clone(m.s.devices)
}

// Index returns the index of a device, -1 for one that the matrix does not name.
func (m Matrix) Index(device string) int {
	if m.s != nil {
		if i, ok := m.s.index[device]; ok {
			return i
		}
	}
	return -1
}

// Without returns the matrix with these devices disabled: they are not selected, ranked or
// encoded, and all indexes stay.
func (m Matrix) Without(devices ...string) Matrix { return m.switched(true, devices) }

// With returns the matrix with these devices enabled again.
func (m Matrix) With(devices ...string) Matrix { return m.switched(false, devices) }

func (m Matrix) switched(off bool, devices []string) Matrix {
	if m.s == nil {
		return m
	}
	set := maps.Clone(m.s.off)
	if set == nil {
		set = map[string]bool{}
	}
	for _, d := range devices {
		if _, known := m.s.index[d]; known && off {
			set[d] = true
		} else {
			delete(set, d)
		}
	}
	return resolve(m.s.entries, m.s.devices, set)
}

// Only returns the matrix over exactly these devices, numbered in their order: others are
// left out, and those that no location names are available everywhere. A descriptor whose
// matrix names other devices than its `devices` cannot be used by nodes of upstream.
func (m Matrix) Only(devices []string) Matrix {
	wanted := make(map[string]bool, len(devices))
	devices = slices.DeleteFunc(slices.Clone(devices), func(d string) bool {
		again := wanted[d]
		wanted[d] = true
		return again
	})
	unwanted := func(d string) bool { return !wanted[d] }
	var missing []string
	for _, d := range devices {
		if m.Index(d) < 0 {
			missing = append(missing, d)
		}
	}
	entries := map[string]Entry{}
	for _, location := range m.Locations() {
		e := m.s.entries[location]
		entries[location] = Entry{
			Preferred: slices.DeleteFunc(slices.Clone(e.Preferred), unwanted),
			Available: append(slices.DeleteFunc(slices.Clone(e.Available), unwanted), missing...),
		}
	}
	if len(entries) == 0 && len(devices) > 0 {
		entries["cpu:0"] = Entry{Preferred: devices}
	}
	var off map[string]bool
	if m.s != nil {
		off = maps.Clone(m.s.off)
		maps.DeleteFunc(off, func(d string, _ bool) bool { return !wanted[d] })
	}
	return resolve(entries, devices, off)
}

package matrix

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Select returns the index of the device for a transfer from or to a location. At the first
// try, retry 0, turn picks among the preferred devices (the available ones where none is
// preferred): give a counter or a random number. Retry k is the k-th of the preferred and
// then the available ones, around. A location that the matrix does not know, or for which
// it has no device, is the wildcard. False where no device is enabled. It allocates nothing.
func (m Matrix) Select(location string, turn uint64, retry int) (int, bool) {
	if m.s == nil {
		return 0, false
	}
	l := m.s.lists(location)
	pick := l.preferred
	if len(pick) == 0 {
		pick = l.available
	}
	if len(pick) == 0 {
		return 0, false
	}
	if retry <= 0 {
		return pick[turn%uint64(len(pick))], true
	}
	k := (retry - 1) % (len(l.preferred) + len(l.available))
	if k < len(l.preferred) {
		return l.preferred[k], true
	}
	return l.available[k-len(l.preferred)], true
}

// lists returns the devices for a location, the wildcard's where it has none.
func (s *state) lists(location string) lists {
	if l := s.live[location]; len(l.preferred)+len(l.available) > 0 {
		return l
	}
	return s.live[Wildcard]
}

// The tiers of Ranked.
const (
	Preferred = 0
	Available = 1
	Unknown   = 2 // the matrix does not name the device, or has it disabled
)

// Ranked is a device with how near it is to a location.
type Ranked struct {
	Device string
	// Index is -1 for a device that the matrix does not name.
	Index int
	Tier  int
}

// Rank orders devices by their tier for a location, best first; within a tier by the order
// in which retries take them, and unknown ones as given. No devices means all that are
// enabled. Each device comes once.
func (m Matrix) Rank(location string, devices []string) []Ranked {
	place := map[string]Ranked{}
	order := map[string]int{}
	var all []string
	if m.s != nil {
		l := m.s.lists(location)
		for tier, list := range [][]int{l.preferred, l.available} {
			for _, i := range list {
				d := m.s.devices[i]
				if _, seen := place[d]; !seen {
					place[d], order[d] = Ranked{d, i, tier}, len(order)
					all = append(all, d)
				}
			}
		}
	}
	if devices == nil {
		devices = all
	}
	out := make([]Ranked, 0, len(devices))
	taken := make(map[string]bool, len(devices))
	for _, d := range devices {
		if taken[d] {
			continue
		}
		taken[d] = true
		r, ok := place[d]
		if !ok {
			r = Ranked{d, m.Index(d), Unknown}
		}
		out = append(out, r)
	}
	slices.SortStableFunc(out, func(a, b Ranked) int {
		if c := cmp.Compare(a.Tier, b.Tier); c != 0 || a.Tier == Unknown {
			return c
		}
		return cmp.Compare(order[a.Device], order[b.Device])
	})
	return out
}

// SegmentsPrefix starts the location of a buffer that is spread over NUMA nodes in equal
// parts: "segments:<page size>:<node>,<node>", one node for each part.
const SegmentsPrefix = "segments:"

// Locate returns where the byte at offset of a buffer lies: the node of its part for a
// buffer of length bytes that is spread over nodes, the wildcard if that is malformed, and
// any other location as it is.
func Locate(location string, length, offset uint64) string {
	body, spread := strings.CutPrefix(location, SegmentsPrefix)
	if !spread {
		return location
	}
	page, list, ok := strings.Cut(body, ":")
	if _, err := strconv.ParseUint(page, 10, 64); !ok || err != nil {
		return Wildcard
	}
	parts := uint64(0)
	for node := range strings.SplitSeq(list, ",") {
		if node == "" {
			continue
		}
		if _, err := strconv.ParseUint(node, 10, 31); err != nil {
			return Wildcard
		}
		parts++
	}
	if parts == 0 || length < parts {
		return Wildcard
	}
	// The last part has what is left over by the division.
	part := min(offset/(length/parts), parts-1)
	for node := range strings.SplitSeq(list, ",") {
		if node == "" {
			continue
		}
		if part == 0 {
			return "cpu:" + strings.TrimLeft(node[:len(node)-1], "0") + node[len(node)-1:]
		}
		part--
	}
	return Wildcard
}

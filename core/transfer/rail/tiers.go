package rail

import (
	"cmp"
	"slices"

	"github.com/mooncake-go/mooncake/sdk/matrix"
)

// maxPlaces bounds the remembered pairs of places; a peer can name any number.
const maxPlaces = 256

// Places are where the memory of a slice is, locally and at the peer.
type Places struct{ Local, Remote string }

// tiered is a rail, by its index, with its tier for a pair of places.
type tiered struct{ rail, tier uint8 }

// tiers ranks the rails of a path for pairs of places and remembers the rankings. The lock of the
// set of rails guards it.
type tiers struct {
	affinity    map[string][]string // Config.PeerAffinity
	here, there matrix.Matrix       // the topologies of this machine and of the peer
	known       map[Places][]tiered
}

// forget drops the rankings, because the rails or a topology changed.
func (t *tiers) forget() { t.known = nil }

// of returns the rails for a slice, the lowest tier first: the lowest tier that has a rail in order
// is used.
//
//	0  a near local device paired with a near device of the peer
//	1  near devices on both sides, in another pairing
//	2  one side near
//	3  any
//
// Pairing keeps 8 devices on either side at 8 rails where 64 would do the same: every rail is a
// connection. Devices of one name are a pair, since equal machines name their devices alike; the
// others are paired in their order.
func (t *tiers) of(at Places, list []*rail) []tiered {
	if known, ok := t.known[at]; ok {
		return known
	}
	var here, there []string
	for _, w := range list {
		here, there = add(here, w.Local), add(there, w.Remote)
	}
	here, there = nearest(t.here, at.Local, here), nearest(t.there, at.Remote, there)
	pairs := pair(here, there)
	if t.affinity != nil {
		pairs = nil
		for _, h := range here {
			for _, peer := range t.affinity[h] {
				pairs = append(pairs, [2]string{h, peer})
			}
		}
	}
	ranked := make([]tiered, 0, len(list))
	for i, w := range list {
		tier := uint8(3)
		nearHere, nearThere := slices.Contains(here, w.Local), slices.Contains(there, w.Remote)
		switch {
		case slices.Contains(pairs, [2]string{w.Local, w.Remote}):
			tier = 0
		case nearHere && nearThere:
			tier = 1
		case nearHere || nearThere:
			tier = 2
		}
		ranked = append(ranked, tiered{uint8(i), tier})
	}
	slices.SortStableFunc(ranked, func(a, b tiered) int { return cmp.Compare(a.tier, b.tier) })
	if t.known == nil || len(t.known) >= maxPlaces {
		t.known = map[Places][]tiered{}
	}
	t.known[at] = ranked
	return ranked
}

// nearest returns those of the devices that are best for a place: all of them where nothing is
// known about it.
func nearest(m matrix.Matrix, place string, devices []string) []string {
	ranked := m.Rank(place, devices)
	var near []string
	for _, d := range ranked {
		if d.Tier == ranked[0].Tier {
			near = append(near, d.Device)
		}
	}
	return near
}

// pair gives every device of the longer list a partner, and every one of the shorter a fair number
// of them.
func pair(here, there []string) [][2]string {
	if len(here) == 0 || len(there) == 0 {
		return nil
	}
	var pairs [][2]string
	var restHere, restThere []string
	for _, h := range here {
		if slices.Contains(there, h) {
			pairs = append(pairs, [2]string{h, h})
		} else {
			restHere = append(restHere, h)
		}
	}
	for _, t := range there {
		if !slices.Contains(here, t) {
			restThere = append(restThere, t)
		}
	}
	n := max(len(restHere), len(restThere))
	if len(restThere) == 0 {
		restThere = there
	}
	if len(restHere) == 0 {
		restHere = here
	}
	for i := range n {
		pairs = append(pairs, [2]string{restHere[i%len(restHere)], restThere[i%len(restThere)]})
	}
	return pairs
}

// add appends a name that is not in the list yet.
func add(names []string, name string) []string {
	if slices.Contains(names, name) {
		return names
	}
	return append(names, name)
}

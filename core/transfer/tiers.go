package transfer

import (
	"cmp"
	"slices"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/sdk/matrix"
)

// maxPlaces bounds the remembered pairs of places; a peer can name any number.
const maxPlaces = 256

// places are where the memory of a slice is, here and there.
type places struct{ local, remote string }

// tiered is a rail, by its index, with its tier for a pair of places.
type tiered struct{ rail, tier uint8 }

// tiersOf returns the rails for a slice, the lowest tier first: the lowest tier that has a
// rail in order is used.
//
//	0  a near device here paired with a near device there
//	1  near devices on both sides, in another pairing
//	2  one side near
//	3  any
//
// Pairing keeps 8 devices on either side at 8 rails where 64 would do the same: every rail
// is a connection. Devices of one name are a pair, since equal machines name their devices
// alike; the others are paired in their order. The caller holds r.mu.
func (r *rails) tiersOf(s *slice) []tiered {
	at := places{local: matrix.Wildcard, remote: matrix.Locate(s.remote.location, s.remote.length, s.addr-s.remote.addr)}
	if s.home != nil {
		at.local = matrix.Locate(s.home.location, uint64(len(s.home.mem)), memory.AddrOf(s.local)-s.home.addr)
	}
	if t, ok := r.tiers[at]; ok {
		return t
	}
	var here, there []string
	for _, w := range r.list {
		here, there = add(here, w.Local), add(there, w.Remote)
	}
	here, there = nearest(r.here, at.local, here), nearest(r.there, at.remote, there)
	pairs := pair(here, there)
	if r.cfg.PeerAffinity != nil {
		pairs = nil
		for _, h := range here {
			for _, t := range r.cfg.PeerAffinity[h] {
				pairs = append(pairs, [2]string{h, t})
			}
		}
	}
	t := make([]tiered, 0, len(r.list))
	for i, w := range r.list {
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
		t = append(t, tiered{uint8(i), tier})
	}
	slices.SortStableFunc(t, func(a, b tiered) int { return cmp.Compare(a.tier, b.tier) })
	if r.tiers == nil || len(r.tiers) >= maxPlaces {
		r.tiers = map[places][]tiered{}
	}
	r.tiers[at] = t
	return t
}

// nearest returns those of the devices that are best for a place: all where nothing is
// known of it.
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

// pair gives every device of the longer list a partner, and every one of the shorter a
// fair number of them.
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

// setThere gives the peer's topology.
func (r *rails) setThere(m matrix.Matrix) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.there, r.tiers = m, nil
}

package segments

import (
	"maps"
	"slices"
	"sync/atomic"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/alloc"
)

// View is what was mounted at one moment. Its lists never change and may be read without
// a lock; a segment in it can have died since.
type View struct {
	// All lists the segments in the order in which they were mounted, without those that are absent.
	All []*Segment
	// Away lists those that are absent.
	Away []*Segment
	// Retained is Capacity plus the memory of Away, in bytes.
	Retained uint64
	// Open lists those of All that take new objects, in the same order. Storage tiers take copies only.
	Open []*Segment
	// Tiers lists those of All that are storage tiers.
	Tiers []*Segment
	// Ring holds the spaces of Open twice in a row, so that n of them starting anywhere
	// are one slice. Read only.
	Ring []alloc.SpaceID
	// Hosts lists the hosts of Open, see Segment.Host, sorted.
	Hosts []string
	// Capacity is the sum of the sizes of All without Tiers, OpenBytes that of Open, and Largest the
	// biggest of Open, in bytes.
	Capacity, OpenBytes, Largest uint64
	// LargestPlain is the biggest, in bytes, of those of Open that upstream's clients reach, and AllPlain says that they
	// reach all of Open.
	LargestPlain uint64
	AllPlain     bool

	names      int
	uneven     atomic.Bool
	bySpace    map[alloc.SpaceID]*Segment
	byName     map[string][]*Segment
	byClient   map[model.ClientID][]*Segment
	byEndpoint map[string][]*Segment
	openOn     map[string][]*Segment
}

// Space returns the segment behind a space, nil when it is not mounted.
func (v *View) Space(id alloc.SpaceID) *Segment { return v.bySpace[id] }

// Named returns the segments that carry a name, in any status.
func (v *View) Named(name string) []*Segment { return v.byName[name] }

// OfClient returns the segments of a client, in any status.
func (v *View) OfClient(id model.ClientID) []*Segment { return v.byClient[id] }

// At returns the segments that peers reach under an endpoint, in any status.
func (v *View) At(endpoint string) []*Segment { return v.byEndpoint[endpoint] }

// SameMemory returns the segments of other clients that lie in the memory of a segment: at the same
// endpoint and at addresses that overlap. An empty endpoint says nothing. A segment of the same ID
// is among them only if it has a ledger, which tells the new client what lies there.
func (v *View) SameMemory(client model.ClientID, seg model.Segment) []*Segment {
	if seg.Endpoint == "" {
		return nil
	}
	var out []*Segment
	for _, o := range v.At(seg.Endpoint) {
		if o.Client != client && overlap(o.Segment, seg) && (o.ID != seg.ID || o.Ledger != nil) {
			out = append(out, o)
		}
	}
	return out
}

// overlap reports whether two segments have an address in common. It is right for any values.
func overlap(a, b model.Segment) bool { return a.Base-b.Base < b.Size || b.Base-a.Base < a.Size }

// OpenOn returns the segments of a host that take new objects.
func (v *View) OpenOn(host string) []*Segment { return v.openOn[host] }

// Names returns how many different names there are among Open: copies of one object go to
// different names, because segments of one name share a node.
func (v *View) Names() int { return v.names }

// Even reports whether every segment of Open has its full weight.
func (v *View) Even() bool { return !v.uneven.Load() }

// Used returns the bytes of memory that objects occupy, over all segments.
func (v *View) Used() uint64 { return v.memory((*Segment).Used) }

// Unconfirmed returns the bytes of Used that are free once ledgers have confirmed it.
func (v *View) Unconfirmed() uint64 { return v.memory((*Segment).Unconfirmed) }

// Needed is Used without Unconfirmed.
func (v *View) Needed() uint64 { return v.memory((*Segment).Needed) }

// Fill returns the bytes that count for the watermark and the share that they are of their segments: of all, or of those that
// take new objects where these are fuller. Segments that drain or unmount have space that no object gets.
func (v *View) Fill() (needed uint64, share float64) {
	if v.Capacity == 0 {
		return 0, 0
	}
	needed = v.Needed()
	share = float64(needed) / float64(v.Capacity)
	var open uint64
	for _, s := range v.Open {
		open += s.Needed()
	}
	if of := float64(open) / float64(max(v.OpenBytes, 1)); of > share {
		return open, of
	}
	return needed, share
}

// memory returns the sum of bytes over all segments of memory.
func (v *View) memory(bytes func(*Segment) uint64) (n uint64) {
	for _, s := range v.All {
		if !s.OnTier() {
			n += bytes(s)
		}
	}
	return n
}

// FreeOnTiers returns the free share of the storage tiers of a client, between 0 and 1, and 1 for one without tiers.
func (v *View) FreeOnTiers(id model.ClientID) float64 {
	var used, size uint64
	for _, s := range v.OfClient(id) {
		if s.OnTier() {
			used += s.Used()
			size += s.Size
		}
	}
	if size == 0 {
		return 1
	}
	return 1 - min(float64(used)/float64(size), 1)
}

func newView(mounted []*Segment) *View {
	all, away := slices.Clone(mounted), []*Segment(nil)
	all = slices.DeleteFunc(all, func(s *Segment) bool {
		if s.Absent() {
			away = append(away, s)
		}
		return s.Absent()
	})
	v := &View{
		All:        all,
		AllPlain:   true,
		Away:       away,
		Open:       make([]*Segment, 0, len(all)),
		Ring:       make([]alloc.SpaceID, 0, 2*len(all)),
		bySpace:    make(map[alloc.SpaceID]*Segment, len(all)),
		byName:     make(map[string][]*Segment, len(all)),
		byClient:   make(map[model.ClientID][]*Segment),
		byEndpoint: make(map[string][]*Segment, len(all)),
		openOn:     make(map[string][]*Segment),
	}
	for _, s := range away {
		if !s.OnTier() {
			v.Retained += s.Size
		}
	}
	open := make(map[string]struct{}, len(all))
	for _, s := range all {
		if s.OnTier() {
			v.Tiers = append(v.Tiers, s)
		} else {
			v.Capacity += s.Size
			v.Retained += s.Size
		}
		v.bySpace[s.Space] = s
		v.byName[s.Name] = append(v.byName[s.Name], s)
		v.byClient[s.Client] = append(v.byClient[s.Client], s)
		v.byEndpoint[s.Endpoint] = append(v.byEndpoint[s.Endpoint], s)
		if !s.Allocatable() || s.OnTier() {
			continue
		}
		v.Open = append(v.Open, s)
		v.OpenBytes += s.Size
		v.Largest = max(v.Largest, s.Size)
		if model.PlainProtocol(s.Protocol) {
			v.LargestPlain = max(v.LargestPlain, s.Size)
		} else {
			v.AllPlain = false
		}
		v.Ring = append(v.Ring, s.Space)
		v.openOn[s.Host()] = append(v.openOn[s.Host()], s)
		open[s.Name] = struct{}{}
	}
	for _, s := range all {
		saves := uint64(0)
		for _, tier := range v.byClient[s.Client] {
			if !s.OnTier() {
				saves = max(saves, tier.keeps())
			}
		}
		s.saves.Store(saves)
	}
	v.Ring = append(v.Ring, v.Ring...)
	v.names = len(open)
	v.Hosts = slices.Sorted(maps.Keys(v.openOn))
	v.judge()
	return v
}

// judge sets Even.
func (v *View) judge() {
	v.uneven.Store(slices.ContainsFunc(v.Open, func(s *Segment) bool { return s.Weight() < 1 }))
}

package segments

import (
	"github.com/mooncake-go/mooncake/sdk/alloc"
)

// View is what was mounted at one moment. It never changes and may be read without a
// lock; a segment in it can have died since.
type View struct {
	// All lists the segments in the order in which they were mounted.
	All []*Segment
	// Ring holds the spaces of All twice in a row, so that n of them starting anywhere are
	// one slice. Read only.
	Ring []alloc.SpaceID
	// Capacity is the sum of the sizes, Largest the biggest of them, in bytes.
	Capacity, Largest uint64

	names   int
	bySpace map[alloc.SpaceID]*Segment
	byName  map[string][]*Segment
}

// Space returns the segment behind a space, nil when it is not mounted.
func (v *View) Space(id alloc.SpaceID) *Segment { return v.bySpace[id] }

// Named returns the segments that carry a name.
func (v *View) Named(name string) []*Segment { return v.byName[name] }

// Names returns how many different names there are: copies of one object go to different
// names, because segments of one name share a node.
func (v *View) Names() int { return v.names }

// Used returns the bytes that objects occupy, over all segments.
func (v *View) Used() uint64 {
	var n uint64
	for _, s := range v.All {
		n += s.Used()
	}
	return n
}

func newView(all []*Segment) *View {
	v := &View{
		All:     all,
		Ring:    make([]alloc.SpaceID, 0, 2*len(all)),
		bySpace: make(map[alloc.SpaceID]*Segment, len(all)),
		byName:  make(map[string][]*Segment, len(all)),
	}
	for _, s := range all {
		v.Capacity += s.Size
		v.Largest = max(v.Largest, s.Size)
		v.Ring = append(v.Ring, s.Space)
		v.bySpace[s.Space] = s
		v.byName[s.Name] = append(v.byName[s.Name], s)
	}
	v.Ring = append(v.Ring, v.Ring...)
	v.names = len(v.byName)
	return v
}

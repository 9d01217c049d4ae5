package placement

import (
	"slices"

	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/sdk/alloc"
)

// LocalFirst puts the only copy of an object on the writer's host, or failing that on the
// next ones by name. It is Random for more copies and for a writer whose host is unknown.
type LocalFirst struct{}

// Order implements Strategy.
func (LocalFirst) Order(v *segments.View, o Object, scratch []alloc.SpaceID) []alloc.SpaceID {
	if o.Copies > 1 || o.Host == "" {
		return Random{}.Order(v, o, scratch)
	}
	return byHost(v, o.Host, o.Key, scratch)
}

// byHost orders the segments by host: from the given one, or the next by name, around all
// of them. Inside a host the key says with which segment it begins, so that objects are
// spread over the segments.
func byHost(v *segments.View, host, key string, scratch []alloc.SpaceID) []alloc.SpaceID {
	o := newOrder(len(v.Open), scratch)
	h := hash(key)
	first, _ := slices.BinarySearch(v.Hosts, host)
	for i := range v.Hosts {
		segs := v.OpenOn(v.Hosts[(first+i)%len(v.Hosts)])
		n := uint64(len(segs))
		for j := uint64(0); j < n && !o.full(); j++ {
			o.add(segs[(h%n+j)%n])
		}
		if o.full() {
			break
		}
	}
	return o.list()
}

// hash is FNV-1a.
func hash(key string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * 1099511628211
	}
	return h
}

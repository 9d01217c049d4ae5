package objects

import (
	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

// Grant is what a read does to an object.
type Grant struct {
	// Until extends the lease to this instant; zero grants none.
	Until lease.Instant
	// Rank counts the read as an access in the eviction order.
	Rank bool
}

// Exist reports whether a key is readable and applies the grant if so.
func (t *Table) Exist(key string, g Grant) bool {
	i := t.index(key)
	s := &t.shards[i]
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.byKey[key]
	if o == nil || !o.complete || !o.alive() {
		return false
	}
	t.grant(i, s, o, g)
	return true
}

// Read answers with an object and applies the grant. The copies are appended to buf and
// the answer points into the result. Missing or Unfinished.
func (t *Table) Read(key string, g Grant, buf []model.Replica) (model.Object, []model.Replica, Outcome) {
	i := t.index(key)
	s := &t.shards[i]
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.byKey[key]
	if o == nil {
		return model.Object{}, buf, Missing
	}
	if !o.complete {
		if o.alive() {
			return model.Object{}, buf, Unfinished
		}
		return model.Object{}, buf, Missing
	}
	head := len(buf)
	buf = o.replicas(buf, model.ReplicaComplete)
	if len(buf) == head {
		return model.Object{}, buf, Missing
	}
	t.grant(i, s, o, g)
	return model.Object{
		Size:     o.size,
		Checksum: model.Checksum{Kind: o.sumKind, Value: o.checksum},
		Replicas: buf[head:len(buf):len(buf)],
	}, buf, Done
}

func (t *Table) grant(i int, s *shard, o *object, g Grant) {
	o.lease = max(o.lease, g.Until)
	if g.Rank && !o.pinned {
		o.ranked = t.note(i, s, evict.Event{Op: evict.Access, ID: o.id})
	}
}

// Keys appends the readable keys of one shard, 0 to Shards-1, to dst.
func (t *Table) Keys(i int, dst []string) []string {
	s := &t.shards[i]
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, o := range s.byKey {
		if o.complete && o.alive() {
			dst = append(dst, k)
		}
	}
	return dst
}

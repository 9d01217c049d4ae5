// Package segments keeps the memory that nodes contribute to the pool and the clients
// that are known to be alive.
//
// It calls no plugin: the master tells the allocator about spaces itself and keeps both
// in step. Readers work on an immutable View; mounting, unmounting and a change of status
// publish a new one.
//
// Health weighs the segments by what clients report of each other's nodes. A weight moves a
// segment back in the order in which placement tries them, and that of a silent node keeps new
// objects away while other nodes answer. So a pool in which every node is unwell goes on.
package segments

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// MaxSegments bounds how many segments may be mounted at a time.
const MaxSegments = 1 << 14

// maxText bounds the names, endpoints and protocols that come with a segment, in bytes.
const maxText = 1 << 10

// Registry holds the mounted segments. Reading is free of locks; the caller serialises
// changes that belong together (check, tell the allocator, add).
type Registry struct {
	view atomic.Pointer[View]
	next atomic.Uint64

	mu      sync.Mutex
	byID    map[model.SegmentID]*Segment
	mounted []*Segment // in the order in which they were mounted
}

// NewRegistry returns an empty registry.
func NewRegistry() *Registry {
	r := &Registry{byID: map[model.SegmentID]*Segment{}}
	r.view.Store(newView(nil))
	return r
}

// View returns what is mounted now.
func (r *Registry) View() *View { return r.view.Load() }

// Get returns a mounted segment, nil when it is not known.
func (r *Registry) Get(id model.SegmentID) *Segment {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byID[id]
}

// Prepare validates a segment to be mounted and gives it a space. known is true, and the
// result the segment that is there already, when exactly this one is mounted.
// InvalidParams for anything that cannot be mounted.
func (r *Registry) Prepare(client model.ClientID, seg model.Segment) (s *Segment, known bool, err error) {
	if err := validate(client, seg); err != nil {
		return nil, false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.byID[seg.ID]; old != nil {
		if old.Client == client && old.Segment == seg {
			return old, true, nil
		}
		return nil, false, invalid(seg, "this ID is mounted with other values or by another client; unmount it first")
	}
	if len(r.byID) >= MaxSegments {
		return nil, false, invalid(seg, "%d segments are mounted already, the most there can be", MaxSegments)
	}
	for _, o := range r.byID {
		if o.Client == client && overlap(o.Segment, seg) {
			return nil, false, invalid(seg, "it overlaps segment %s of the same client; objects would overwrite each other", o.ID)
		}
	}
	return &Segment{Segment: seg, Client: client, Space: alloc.SpaceID(r.next.Add(1))}, false, nil
}

// Add publishes a prepared segment.
func (r *Registry) Add(s *Segment) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byID[s.ID] = s
	r.mounted = append(r.mounted, s)
	r.view.Store(newView(r.mounted))
}

// judge brings Even of the present view up to date.
func (r *Registry) judge() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.view.Load().judge()
}

// SetAbsent notes since when the node of a segment is silent, 0 if it is not, and publishes a view that says so.
func (r *Registry) SetAbsent(s *Segment, since lease.Instant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.absent.Swap(int64(since)) != int64(since) && r.byID[s.ID] == s {
		r.view.Store(newView(r.mounted))
	}
}

// Reopen lets new objects into the segments whose CloseUntil is over.
func (r *Registry) Reopen(now lease.Instant) {
	for _, s := range r.View().All {
		if until := s.closed.Load(); until == 0 || now < lease.Instant(until) {
			continue
		}
		r.mu.Lock()
		s.closed.Store(0)
		if r.byID[s.ID] == s {
			r.view.Store(newView(r.mounted))
		}
		r.mu.Unlock()
	}
}

// Remove kills a segment and takes it out of the view.
func (r *Registry) Remove(s *Segment) {
	s.Kill()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byID[s.ID] != s {
		return
	}
	delete(r.byID, s.ID)
	r.mounted = slices.DeleteFunc(r.mounted, func(o *Segment) bool { return o == s })
	r.view.Store(newView(r.mounted))
}

func validate(client model.ClientID, seg model.Segment) error {
	switch {
	case client.IsZero():
		return invalid(seg, "the client ID is zero")
	case seg.ID.IsZero():
		return invalid(seg, "the segment ID is zero")
	case seg.Base == 0 || seg.Size == 0:
		return invalid(seg, "base and size must not be 0")
	case seg.Size > math.MaxUint64-seg.Base || seg.Size > math.MaxInt64:
		return invalid(seg, "%d bytes at %#x do not fit into an address space", seg.Size, seg.Base)
	case seg.Name == "":
		return invalid(seg, "the name is empty; it is the node's host:port")
	case len(seg.Name) > maxText || len(seg.Endpoint) > maxText || len(seg.Protocol) > maxText || len(seg.HostID) > maxText:
		return invalid(seg, "a name, endpoint, protocol or host is longer than %d bytes", maxText)
	}
	return nil
}

func invalid(seg model.Segment, format string, args ...any) error {
	name := seg.Name
	if len(name) > maxText {
		name = name[:maxText]
	}
	return errs.New(errs.InvalidParams, "master: mount segment "+seg.ID.String()+" ("+name+")", format, args...)
}

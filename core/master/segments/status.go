package segments

import (
	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// allowed reports whether a live segment may go from one status to another. Unmounting is
// not among them: Registry.Remove does that, from any status.
func allowed(from, to model.SegmentStatus) bool {
	switch to {
	case model.SegmentOK:
		return from == model.SegmentDraining
	case model.SegmentDraining:
		return from == model.SegmentOK
	case model.SegmentDrained:
		return from == model.SegmentDraining
	case model.SegmentGracefullyUnmounting:
		return from == model.SegmentOK || from == model.SegmentDraining || from == model.SegmentDrained
	default:
		return false
	}
}

// SetStatus moves a mounted segment to another status and publishes a view that says so.
// deadline is when a graceful unmount becomes final and is ignored for any other status.
// The status that it has already is a success; of two deadlines the earlier one counts.
// SegmentNotFound when it is not mounted any more, UnavailableInCurrentStatus when there
// is no way from here to there.
func (r *Registry) SetStatus(s *Segment, to model.SegmentStatus, deadline lease.Instant) error {
	const op = "master: segment status"
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byID[s.ID] != s {
		return errs.New(errs.SegmentNotFound, op, "segment %s (%s) is not mounted any more", s.ID, s.Name)
	}
	from := s.Status()
	if from != to && !allowed(from, to) {
		return errs.New(errs.UnavailableInCurrentStatus, op, "segment %s (%s) is %s and cannot become %s", s.ID, s.Name, from, to)
	}
	if to == model.SegmentGracefullyUnmounting && (from != to || deadline < s.Deadline()) {
		s.deadline.Store(int64(deadline))
	}
	if from == to {
		return nil
	}
	s.status.Store(int32(to))
	r.view.Store(newView(r.mounted))
	return nil
}

// Due returns the segments whose graceful unmount has become final. The caller unmounts
// them.
func (r *Registry) Due(now lease.Instant) []*Segment {
	var due []*Segment
	for _, s := range r.View().All {
		if s.Status() == model.SegmentGracefullyUnmounting && now >= s.Deadline() {
			due = append(due, s)
		}
	}
	return due
}

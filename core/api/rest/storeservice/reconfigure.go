package storeservice

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
)

// role is what reconfigure has mounted. What the node began with, and what mount and
// mount_shm added, is not in it.
type role struct {
	src source
	ids []model.SegmentID
	// stale were mounted before and could not be unmounted.
	stale []model.SegmentID
}

// drop forgets segments that are gone.
func (r *role) drop(gone []model.SegmentID) {
	out := func(id model.SegmentID) bool { return slices.Contains(gone, id) }
	r.stale = slices.DeleteFunc(r.stale, out)
	if r.ids = slices.DeleteFunc(r.ids, out); len(r.ids) == 0 {
		r.src = source{}
	}
}

// reconfigure changes between the two roles of an engine. Mode decode contributes a file
// of shared memory in place of the one before: the new is mounted first, and when that
// fails everything stays as it was. Mode prefill only takes the one before out.
func (s *Service) reconfigure(q *request) {
	f, ok := s.decode(q, maxControl, http.StatusInternalServerError)
	if !ok {
		return
	}
	mode, err := f.text("mode")
	if err != nil || mode != "decode" && mode != "prefill" {
		q.fail(http.StatusBadRequest, "Invalid mode: must be prefill or decode", err)
		return
	}
	grace, err := f.grace()
	if err != nil {
		q.fail(http.StatusBadRequest, "Invalid grace_period_seconds", err)
		return
	}
	next := role{}
	if mode == "decode" {
		path, err := f.text("path")
		if err != nil || path == "" {
			q.fail(http.StatusBadRequest, "Missing path", err)
			return
		}
		if next.src, err = s.locate(path); err != nil {
			s.refused(q, "Invalid path", err)
			return
		}
		if !next.src.place(q, f) {
			return
		}
	}
	if !s.takeTurn(q) {
		return
	}
	defer s.yield()
	ids, err := s.become(q.ctx, mode, next, f, grace)
	if err != nil {
		s.refused(q, "Reconfigure failed, the previous segments stay", err)
		return
	}
	q.success(mounted{Status: "success", Mode: mode, IDs: texts(ids)})
}

// become takes the role next. Asked for the one it has, it only finishes what was left
// undone.
func (s *Service) become(ctx context.Context, mode string, next role, f fields, grace time.Duration) ([]model.SegmentID, error) {
	s.role.drop(s.gone())
	before := s.role
	old := slices.Concat(before.ids, before.stale)
	switch {
	case mode == "decode" && len(before.ids) > 0 && before.src == next.src:
		next, old = before, before.stale
	case mode == "decode":
		var err error
		if next.ids, err = s.contribute(ctx, next.src, f); err != nil {
			return nil, err
		}
	}
	next.stale = nil
	if len(old) > 0 {
		if err := s.segments.UnmountSegments(ctx, old, grace); err != nil {
			next.stale = old
			s.role = next
			return nil, fmt.Errorf("the new segments %v are mounted and the previous ones could not be unmounted; the same request tries again: %w", texts(next.ids), err)
		}
	}
	s.role = next
	return next.ids, nil
}

// gone lists what the role has and the node has not: it was unmounted in between.
func (s *Service) gone() []model.SegmentID {
	there := map[model.SegmentID]bool{}
	for _, seg := range s.segments.Segments() {
		there[seg.ID] = true
	}
	return slices.DeleteFunc(slices.Concat(s.role.ids, s.role.stale), func(id model.SegmentID) bool { return there[id] })
}

package storeservice

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
)

const (
	modeDecode  = "decode"
	modePrefill = "prefill"
)

// role is what reconfigure has mounted. What the node began with, and what mount and
// mount_shm added, is not in it.
type role struct {
	src source
	ids []model.SegmentID
	// stale were mounted before and could not be unmounted.
	stale []model.SegmentID
}

// mode is what the service says of itself: prefill when it has no segments of reconfigure.
func (r *role) mode() string {
	if len(r.ids) == 0 && len(r.stale) == 0 {
		return modePrefill
	}
	return modeDecode
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
// fails everything stays as it was. What cannot be unmounted stays as well, and is in the
// answer; a later request tries again. Mode prefill only takes the one before out.
func (s *Service) reconfigure(q *request) {
	f, ok := s.decode(q, maxControl, http.StatusInternalServerError)
	if !ok {
		return
	}
	mode, err := f.text("mode")
	if mode = strings.ToLower(mode); err != nil || mode != modeDecode && mode != modePrefill {
		q.fail(http.StatusBadRequest, "Invalid mode: must be prefill or decode", err)
		return
	}
	grace, err := f.grace()
	if err != nil {
		q.fail(http.StatusBadRequest, "Invalid grace_period_seconds", err)
		return
	}
	next := role{}
	if mode == modeDecode {
		path, err := f.text("path")
		if err != nil || path == "" || !f.given("size") {
			q.fail(http.StatusBadRequest, "Missing path or size: mode decode needs both", err)
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
	if err := s.become(q.ctx, mode, next, f, grace); err != nil {
		text := "Reconfigure failed, the previous segments stay"
		if mode == modePrefill {
			text = "Unmount failed, the previous segments stay"
		}
		q.mode = s.role.mode()
		s.refused(q, text, err)
		return
	}
	q.success(mounted{Status: "success", Mode: mode, IDs: texts(slices.Concat(s.role.ids, s.role.stale))})
}

// become takes the role next. Asked for the one it has, it only finishes what was left
// undone. That the segments before cannot be unmounted is an error of mode prefill alone:
// in mode decode the new ones serve.
func (s *Service) become(ctx context.Context, mode string, next role, f fields, grace time.Duration) error {
	s.role.drop(s.gone())
	before := s.role
	old := slices.Concat(before.ids, before.stale)
	switch {
	case mode == modeDecode && len(before.ids) > 0 && before.src == next.src:
		next, old = before, before.stale
	case mode == modeDecode:
		var err error
		if next.ids, err = s.contribute(ctx, next.src, f); err != nil {
			return err
		}
	}
	next.stale = nil
	var err error
	for _, id := range old {
		if e := s.segments.UnmountSegments(ctx, []model.SegmentID{id}, grace); e != nil {
			next.stale, err = append(next.stale, id), errors.Join(err, e)
		}
	}
	s.role = next
	switch {
	case err == nil:
	case mode == modePrefill:
		return fmt.Errorf("the segments %v could not be unmounted; the same request tries again: %w", texts(next.stale), err)
	default:
		s.log.Warn("store service: the new segments are mounted and previous ones could not be unmounted, a later request tries again",
			"mounted", texts(next.ids), "previous", texts(next.stale), "error", err)
	}
	return nil
}

// gone lists what the role has and the node has not: it was unmounted in between.
func (s *Service) gone() []model.SegmentID {
	there := map[model.SegmentID]bool{}
	for _, seg := range s.segments.Segments() {
		there[seg.ID] = true
	}
	return slices.DeleteFunc(slices.Concat(s.role.ids, s.role.stale), func(id model.SegmentID) bool { return there[id] })
}

package storeservice

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store/node"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// mounted is the answer of what mounted memory.
type mounted struct {
	Status    string   `json:"status"`
	Mode      string   `json:"mode,omitempty"`
	IDs       []string `json:"segment_ids"`
	Allocated uint64   `json:"allocated_size,omitempty"`
}

// takeTurn makes the changes of segments one after the other. It answers 503 and reports
// false when the request ends first.
func (s *Service) takeTurn(q *request) bool {
	select {
	case s.turn <- struct{}{}:
		return true
	case <-q.ctx.Done():
		q.busy()
		return false
	}
}

func (s *Service) yield() { <-s.turn }

// mount allocates memory of this machine and contributes it.
func (s *Service) mount(q *request) {
	f, ok := s.decode(q, maxControl, http.StatusInternalServerError)
	if !ok {
		return
	}
	size, err := f.whole("size", 0)
	if err != nil || size == 0 {
		q.fail(http.StatusBadRequest, "Invalid size: must be a positive integer", err)
		return
	}
	o, err := s.mountOptions(f)
	if err != nil {
		q.fail(http.StatusBadRequest, "Invalid parameters", err)
		return
	}
	if !s.takeTurn(q) {
		return
	}
	defer s.yield()
	o.Size = size
	ids, err := s.segments.MountSegment(q.ctx, o)
	if err != nil {
		s.failed(q, "Mount operation failed", err)
		return
	}
	allocated := uint64(0)
	for _, seg := range s.segments.Segments() {
		if slices.Contains(ids, seg.ID) {
			allocated += seg.Size
		}
	}
	q.success(mounted{Status: "success", IDs: texts(ids), Allocated: allocated})
}

// mountOptions reads protocol and location.
func (s *Service) mountOptions(f fields) (o node.MountOptions, err error) {
	if o.Protocol, err = f.text("protocol"); err != nil {
		return o, err
	}
	if o.Protocol != "" && len(s.opts.Protocols) > 0 && !slices.Contains(s.opts.Protocols, o.Protocol) {
		return o, fmt.Errorf("protocol %q is not one of this node: %s", o.Protocol, strings.Join(s.opts.Protocols, ", "))
	}
	o.Location, err = f.text("location")
	if len(o.Protocol) > 64 || len(o.Location) > 256 {
		return o, errors.New("protocol has at most 64 and location at most 256 bytes")
	}
	return o, err
}

// unmount takes segments out, all or none.
func (s *Service) unmount(q *request) {
	s.unmountWith(q, "Unmount operation failed", func(ids []model.SegmentID, f *failure, free func(...model.SegmentID) error) {
		f.because(free(ids...))
	})
}

// unmountShm takes segments out one by one and names those that stay.
func (s *Service) unmountShm(q *request) {
	s.unmountWith(q, "Unmount shm operation failed", func(ids []model.SegmentID, f *failure, free func(...model.SegmentID) error) {
		var all error
		for _, id := range ids {
			if err := free(id); err != nil {
				f.Failed, all = append(f.Failed, id.String()), errors.Join(all, err)
			}
		}
		f.because(all)
	})
}

func (s *Service) unmountWith(q *request, text string, do func([]model.SegmentID, *failure, func(...model.SegmentID) error)) {
	f, ok := s.decode(q, maxControl, http.StatusInternalServerError)
	if !ok {
		return
	}
	ids, err := f.ids()
	if err != nil || len(ids) == 0 {
		q.fail(http.StatusBadRequest, "Missing segment_ids", err)
		return
	}
	grace, err := f.grace()
	if err != nil {
		q.fail(http.StatusBadRequest, "Invalid grace_period_seconds", err)
		return
	}
	if !s.takeTurn(q) {
		return
	}
	defer s.yield()
	parsed := make([]model.SegmentID, len(ids))
	for i, id := range ids {
		if parsed[i], err = model.ParseUUID(id); err != nil {
			q.send(http.StatusInternalServerError, failure{Error: text, Detail: fmt.Sprintf("%q is no ID of a segment", id), Failed: []string{id}})
			return
		}
	}
	out := failure{Error: text}
	do(parsed, &out, func(which ...model.SegmentID) error {
		err := s.segments.UnmountSegments(q.ctx, which, grace)
		if err == nil {
			s.role.drop(which)
		}
		return err
	})
	if out.Detail != "" {
		s.log.Warn("store service: segments could not be unmounted", "error", out.Detail)
		q.send(http.StatusInternalServerError, out)
		return
	}
	q.success(worked())
}

// maxIDs bounds the segments of one request.
const maxIDs = 4096

// ids reads segment_ids: a list of texts, or one.
func (f fields) ids() ([]string, error) {
	if !f.given("segment_ids") {
		return nil, nil
	}
	var list []string
	if err := json.Unmarshal(f["segment_ids"], &list); err != nil {
		var one string
		if json.Unmarshal(f["segment_ids"], &one) != nil {
			return nil, errors.New("segment_ids must be a list of strings, or a string")
		}
		if one != "" {
			list = []string{one}
		}
	}
	if len(list) > maxIDs {
		return nil, fmt.Errorf("segment_ids has %d, at most %d are allowed", len(list), maxIDs)
	}
	return list, nil
}

func texts(ids []model.SegmentID) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = id.String()
	}
	return out
}

// unmountLocalDisk takes the storage tiers out, and answers after the grace, as upstream's does. On a node without one it
// succeeds. The body is checked as upstream checks it; without one it counts as {}.
func (s *Service) unmountLocalDisk(q *request) {
	body, err := s.read(q, maxControl)
	if err != nil {
		s.unread(q, err, maxControl)
		return
	}
	f := fields{}
	if len(bytes.TrimSpace(body)) > 0 {
		if f, err = parse(body); err != nil {
			q.fail(http.StatusBadRequest, "Invalid JSON body", err)
			return
		}
	}
	grace, err := f.grace()
	if err != nil {
		q.fail(http.StatusBadRequest, "Invalid grace_period_seconds", err)
		return
	}
	ctx, cancel := context.WithTimeout(q.r.Context(), grace+callWait)
	defer cancel()
	q.pace.forCall(grace + callWait + time.Minute)
	if err := s.segments.UnmountTiers(ctx, grace); err != nil {
		s.failed(q, fmt.Sprintf("Unmount local disk operation failed, ret=%d", errs.CodeOf(err)), err)
		return
	}
	q.success(worked())
}

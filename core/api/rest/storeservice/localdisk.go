package storeservice

import (
	"bytes"
	"net/http"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// unmountLocalDisk answers what there is to say where no local disk is mounted: there is no
// tier of local disks. The body is checked as upstream checks it; without one it counts as {}.
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
	if _, err := f.grace(); err != nil {
		q.fail(http.StatusBadRequest, "Invalid grace_period_seconds", err)
		return
	}
	q.fail(http.StatusInternalServerError, "Unmount local disk operation failed",
		errs.New(errs.SegmentNotFound, "store service", "this node has no local disk mounted; the pool has no tier of local disks yet"))
}

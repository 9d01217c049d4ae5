package storeservice

import (
	"bytes"
	"net/http"
)

// unmountLocalDisk has nothing to unmount, as there is no tier of local disks, and so succeeds
// as upstream's does on a node without one. The body is checked as upstream checks it; without one it counts as {}.
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
	q.success(worked())
}

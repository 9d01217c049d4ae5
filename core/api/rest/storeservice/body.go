package storeservice

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// fields is a JSON object. Names are matched exactly, and the last of two alike counts.
type fields map[string]json.RawMessage

// copies is how often the bytes of a body are held at once while they are decoded.
const copies = 4

var (
	errTooLarge = errors.New("the body is too large")
	errBusy     = errors.New("the requests in progress hold all the memory there is for them; try again")
)

// reserve takes memory for the request, at most all there is, or says errBusy.
func (s *Service) reserve(q *request, n int64) error {
	n = min(n, s.opts.Memory-q.held)
	if n <= 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(q.ctx, memoryWait)
	defer cancel()
	if s.memory.Acquire(ctx, n) != nil {
		return errBusy
	}
	q.held += n
	return nil
}

func (s *Service) release(q *request) {
	s.memory.Release(q.held)
	q.held = 0
}

// read takes the whole body into memory, which is reserved as the bytes arrive, so that a
// slow client holds little.
func (s *Service) read(q *request, limit int) ([]byte, error) {
	if q.r.ContentLength > int64(limit) {
		return nil, errTooLarge
	}
	start := time.Now()
	defer q.pace.afterRead()
	body := make([]byte, 0, 4<<10)
	for {
		if len(body) == cap(body) {
			size := min(2*cap(body), limit+1)
			if size == len(body) {
				return nil, errTooLarge
			}
			if err := s.reserve(q, int64(size-cap(body))*copies); err != nil {
				return nil, err
			}
			body = append(make([]byte, 0, size), body...)
		}
		q.pace.beforeRead(start, len(body))
		n, err := q.r.Body.Read(body[len(body):min(cap(body), len(body)+step)])
		body = body[:len(body)+n]
		switch {
		case len(body) > limit:
			return nil, errTooLarge
		case errors.Is(err, io.EOF):
			return body, nil
		case err != nil:
			return nil, fmt.Errorf("the body could not be read: %w", err)
		}
	}
}

// decode reads the body as a JSON object. When it cannot, it answers, malformed being the
// status for a body that is no JSON object, and reports false.
func (s *Service) decode(q *request, limit, malformed int) (fields, bool) {
	body, err := s.read(q, limit)
	if err == nil {
		var f fields
		if f, err = parse(body); err == nil {
			return f, true
		}
		q.fail(malformed, "Invalid JSON body", err)
		return nil, false
	}
	s.unread(q, err, limit)
	return nil, false
}

// unread answers for a body that could not be read.
func (s *Service) unread(q *request, err error, limit int) {
	q.w.Header().Set("Connection", "close") // The rest of it is not wanted.
	switch {
	case errors.Is(err, errTooLarge):
		q.fail(http.StatusRequestEntityTooLarge, "Request body too large", fmt.Errorf("it may have %d bytes", limit))
	case errors.Is(err, errBusy):
		q.busy()
	default:
		q.fail(http.StatusBadRequest, "Incomplete body", err)
	}
}

// busy answers 503 to a request that found no memory or no turn in time.
func (q *request) busy() {
	q.w.Header().Set("Retry-After", "1")
	q.fail(http.StatusServiceUnavailable, "Service busy", errBusy)
}

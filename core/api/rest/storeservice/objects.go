package storeservice

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// put stores a text. A key that exists counts as success and is left as it is. A key that
// Python takes for nothing (null, "", 0, false, [] and {}) is missing; another type is 500
// there. The store refuses an empty value.
func (s *Service) put(q *request) {
	f, ok := s.decode(q, s.opts.MaxBody, http.StatusInternalServerError)
	if !ok {
		return
	}
	if f.nothing("key") || !f.given("value") {
		q.fail(http.StatusBadRequest, "Missing key or value", nil)
		return
	}
	key, err := f.text("key")
	var value string
	if err == nil {
		value, err = f.text("value")
	}
	if err != nil {
		q.fail(http.StatusInternalServerError, "PUT operation failed", err)
		return
	}
	clear(f)
	if err := model.ValidateKey(key); err != nil {
		q.fail(http.StatusBadRequest, "Invalid key", err)
		return
	}
	if err := s.objects.Put(q.ctx, key, []byte(value), model.DefaultReplicateConfig()); err != nil {
		s.failed(q, "PUT operation failed", err)
		return
	}
	q.success(worked())
}

// nothing reports a field that is not there, or is what Python takes for false.
func (f fields) nothing(name string) bool {
	if !f.given(name) {
		return true
	}
	switch string(f[name]) {
	case `""`, "0", "false", "[]", "{}":
		return true
	}
	return false
}

// get sends an object as it is. It is held in memory once.
func (s *Service) get(q *request) {
	size, err := s.objects.Size(q.ctx, q.key)
	if err == nil && q.r.Method == http.MethodHead {
		q.head(size)
		return
	}
	var value []byte
	if err == nil {
		if s.reserve(q, int64(min(size, uint64(s.opts.Memory)))) != nil {
			q.busy()
			return
		}
		value, err = s.objects.Get(q.ctx, q.key)
	}
	switch code := errs.CodeOf(err); {
	case code == errs.ObjectNotFound, code == errs.ReplicaIsNotReady, code == errs.ReplicaIsGone:
		q.fail(http.StatusNotFound, "Key not found", err)
	case err != nil:
		s.failed(q, "GET operation failed", err)
	default:
		q.head(uint64(len(value)))
		if err := q.pace.write(value); err != nil {
			s.log.Debug("store service: the client went away", "key", fmt.Sprintf("%q", q.key), "error", err)
		}
	}
}

// head begins the answer of get.
func (q *request) head(size uint64) {
	h := q.w.Header()
	h.Set("Content-Type", typeBytes)
	h.Set("Content-Length", strconv.FormatUint(size, 10))
	q.w.WriteHeader(http.StatusOK)
}

func (s *Service) exist(q *request) {
	there, err := s.objects.Exist(q.ctx, q.key)
	if err != nil {
		s.failed(q, "Exist check failed", err)
		return
	}
	q.success(struct {
		Exists bool `json:"exists"`
	}{there})
}

// remove refuses an object that a client reads.
func (s *Service) remove(q *request) {
	if err := s.objects.Remove(q.ctx, q.key, false); err != nil {
		s.failed(q, "Remove operation failed", err)
		return
	}
	q.success(worked())
}

// removeAll keeps objects that a client reads.
func (s *Service) removeAll(q *request) {
	n, err := s.objects.RemoveAll(q.ctx, false)
	if err != nil {
		s.failed(q, "RemoveAll operation failed", err)
		return
	}
	q.success(done{fmt.Sprintf("success removed %d keys", n)})
}

// failed answers 500 to an operation of the store that failed, and says so in the log
// unless it is nothing but an object that is not there or in use.
func (s *Service) failed(q *request, text string, err error) {
	if code := errs.CodeOf(err); code != errs.ObjectNotFound && code != errs.ObjectHasLease {
		s.log.Warn("store service: request failed", "path", q.r.URL.Path, "error", err)
	}
	q.fail(http.StatusInternalServerError, text, err)
}

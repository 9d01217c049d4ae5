package storeservice

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// parse reads a JSON object, and refuses what decoding would change silently: bytes that
// are not UTF-8, and halves of surrogate pairs.
func parse(body []byte) (fields, error) {
	if !utf8.Valid(body) {
		return nil, errors.New("it is not UTF-8")
	}
	if loneSurrogate(body) {
		return nil, errors.New("it has half of a surrogate pair, which is no character")
	}
	var f fields
	if err := json.Unmarshal(body, &f); err != nil {
		return nil, err
	}
	if f == nil {
		return nil, errors.New("it is null and must be an object")
	}
	return f, nil
}

// loneSurrogate reports an escape \ud800 to \udfff that is not one of a pair. What is no
// JSON text is found out later.
func loneSurrogate(body []byte) bool {
	for i := 0; i < len(body); {
		next := bytes.IndexByte(body[i:], '\\')
		if next < 0 {
			return false
		}
		i += next
		switch unit := escaped(body[i:]); {
		case unit >= 0xdc00 && unit <= 0xdfff:
			return true
		case unit >= 0xd800 && unit <= 0xdbff:
			low := escaped(body[i+6:])
			if low < 0xdc00 || low > 0xdfff {
				return true
			}
			i += 12
		default:
			i += 2 // also \\ and \"
		}
	}
	return false
}

// escaped returns the number of an escape \uXXXX that b begins with, -1 for none.
func escaped(b []byte) int64 {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return int64(n)
}

// given reports whether a field is there and not null.
func (f fields) given(name string) bool {
	raw, ok := f[name]
	return ok && string(raw) != "null"
}

// text returns a field that is a text, empty where it is not given.
func (f fields) text(name string) (string, error) {
	if !f.given(name) {
		return "", nil
	}
	var s string
	if json.Unmarshal(f[name], &s) != nil {
		return "", fmt.Errorf("%s must be a string", name)
	}
	return s, nil
}

// whole returns a field that is a whole number from 0 on, written without a fraction or
// exponent, and def where it is not given.
func (f fields) whole(name string, def uint64) (uint64, error) {
	if !f.given(name) {
		return def, nil
	}
	n, err := strconv.ParseUint(string(f[name]), 10, 63)
	if err != nil {
		return 0, fmt.Errorf("%s must be a whole number, 0 or more and below 2^63", name)
	}
	return n, nil
}

// maxGrace is the longest grace period.
const maxGrace = 3600

// grace returns grace_period_seconds, by default 0.
func (f fields) grace() (time.Duration, error) {
	n, err := f.whole("grace_period_seconds", 0)
	if err != nil || n > maxGrace {
		return 0, fmt.Errorf("grace_period_seconds must be a whole number from 0 to %d", maxGrace)
	}
	return time.Duration(n) * time.Second, nil
}

const (
	typeJSON  = "application/json; charset=utf-8"
	typeBytes = "application/octet-stream"
)

// failure is the body of every error.
type failure struct {
	Error  string   `json:"error"`
	Detail string   `json:"detail,omitempty"`
	Code   int32    `json:"error_code,omitempty"`
	Mode   string   `json:"mode,omitempty"`
	Failed []string `json:"failed_segment_ids,omitempty"`
}

// fail answers with upstream's text and, where there is one, the reason.
func (q *request) fail(status int, text string, err error) {
	if q.failure = err; err == nil {
		q.failure = errors.New(text)
	}
	f := failure{Error: text, Mode: q.mode}
	f.because(err)
	q.send(status, f)
}

func (f *failure) because(err error) {
	if err == nil {
		return
	}
	f.Detail = err.Error()
	var coded *errs.Error
	if errors.As(err, &coded) {
		f.Code = int32(errs.CodeOf(err))
	}
}

// success answers 200 with v.
func (q *request) success(v any) { q.send(http.StatusOK, v) }

func (q *request) send(status int, v any) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil { // These are plain structs of texts and numbers.
		status = http.StatusInternalServerError
	}
	body := bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
	h := q.w.Header()
	h.Set("Content-Type", typeJSON)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	q.w.WriteHeader(status)
	_, _ = q.w.Write(body) // A client that is gone needs no answer.
}

// done is the plain answer of what was carried out.
type done struct {
	Status string `json:"status"`
}

// worked is the usual done.
func worked() done { return done{"success"} }

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

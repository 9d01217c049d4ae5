package storeservice

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

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

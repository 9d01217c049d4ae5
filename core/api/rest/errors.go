package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// statusOf maps error codes to HTTP.
func statusOf(c errs.Code) int {
	switch c {
	case errs.InvalidParams, errs.InvalidKey, errs.SerializeUnsupported:
		return http.StatusBadRequest
	case errs.ObjectNotFound, errs.SegmentNotFound, errs.JobNotFound, errs.TenantNotRegistered, errs.TaskNotFound, errs.ReplicaNotFound:
		return http.StatusNotFound
	case errs.UnavailableInCurrentMode, errs.UnavailableInCurrentStatus, errs.TenantNotEmpty,
		errs.ObjectHasLease, errs.ReplicaIsNotReady, errs.ObjectHasReplicationTask:
		return http.StatusConflict
	case errs.IllegalClient:
		return http.StatusForbidden
	case errs.TaskPendingLimitExceeded:
		return http.StatusTooManyRequests
	case errs.NotSupported:
		return http.StatusNotImplemented
	default:
		return http.StatusInternalServerError
	}
}

type failure struct {
	Success bool   `json:"success"`
	Code    int32  `json:"error_code"`
	Message string `json:"error_message"`
	// Detail is for people. Upstream's routes outside /api/ have none.
	Detail string `json:"detail,omitempty"`
}

// failureOf has the code and its name, which is what clients parse, and the full text.
func failureOf(err error) failure {
	code := errs.CodeOf(err)
	return failure{Code: int32(code), Message: code.String(), Detail: err.Error()}
}

// sendError answers with the code and its name only; the full text goes to the log where
// it is more than a miss.
func (h *handler) sendError(w http.ResponseWriter, r *http.Request, err error) {
	f := failureOf(err)
	f.Detail = ""
	sendJSON(w, h.statusAndLog(r, err), f)
}

// explain is sendError with the full text.
func (h *handler) explain(w http.ResponseWriter, r *http.Request, err error) {
	sendJSON(w, h.statusAndLog(r, err), failureOf(err))
}

func (h *handler) statusAndLog(r *http.Request, err error) int {
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return http.StatusRequestEntityTooLarge
	}
	status := statusOf(errs.CodeOf(err))
	if status == http.StatusInternalServerError {
		h.log.Warn("admin: request failed", "path", r.URL.Path, "error", err)
	}
	return status
}

// success is the answer of the routes below /api/v1 that upstream does not have, and of
// the quotas.
type success[T any] struct {
	Success bool `json:"success"`
	Data    T    `json:"data"`
}

func sendData[T any](w http.ResponseWriter, data T) {
	sendJSON(w, http.StatusOK, success[T]{true, data})
}

func sendJSON(w http.ResponseWriter, status int, v any) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		send(w, http.StatusInternalServerError, typeText, "encode: "+err.Error())
		return
	}
	send(w, status, typeJSON, string(bytes.TrimSuffix(buf.Bytes(), []byte("\n"))))
}

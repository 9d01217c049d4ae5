package rest

import (
	"bytes"
	"encoding/json"
	"net/http"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// statusOf maps error codes to HTTP.
func statusOf(c errs.Code) int {
	switch c {
	case errs.InvalidParams, errs.InvalidKey:
		return http.StatusBadRequest
	case errs.ObjectNotFound, errs.SegmentNotFound, errs.JobNotFound, errs.TenantNotRegistered:
		return http.StatusNotFound
	case errs.UnavailableInCurrentMode, errs.UnavailableInCurrentStatus, errs.TenantNotEmpty:
		return http.StatusConflict
	default:
		return http.StatusInternalServerError
	}
}

type failure struct {
	Success bool   `json:"success"`
	Code    int32  `json:"error_code"`
	Message string `json:"error_message"`
}

// sendError answers with the code and its name, which is what clients parse; the full text
// goes to the log where it is more than a miss.
func (h *handler) sendError(w http.ResponseWriter, r *http.Request, err error) {
	code := errs.CodeOf(err)
	status := statusOf(code)
	if status == http.StatusInternalServerError {
		h.log.Warn("admin: request failed", "path", r.URL.Path, "error", err)
	}
	sendJSON(w, status, failure{Code: int32(code), Message: code.String()})
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

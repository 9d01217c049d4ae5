package introspect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// ReloadTimeout bounds a reload on the side of the process: start, resync and drain have bounds
// of their own below it.
const ReloadTimeout = 5 * time.Minute

// handler answers requests. It keeps one reload at a time.
type handler struct {
	who  Process
	host Host
	log  *slog.Logger

	ctx       context.Context // ends with the server
	reloading sync.Mutex
}

func (h *handler) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/process", h.only(http.MethodGet, h.process))
	mux.HandleFunc("/v1/plugins", h.only(http.MethodGet, h.plugins))
	mux.HandleFunc("/v1/plugins/{kind}/{name}/reload", h.only(http.MethodPost, h.reload))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, http.StatusNotFound, errs.New(errs.InvalidParams, "", "there is no route %.200q; this is version %d", r.URL.Path, API))
	})
	return mux
}

// only lets requests through that have the method, no parameters and no body: whoever
// sends more expects something that does not happen.
func (h *handler) only(method string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method != method:
			w.Header().Set("Allow", method)
			fail(w, http.StatusMethodNotAllowed, errs.New(errs.InvalidParams, "", "%s takes %s, not %.20q", r.URL.Path, method, r.Method))
		case r.URL.RawQuery != "":
			fail(w, http.StatusBadRequest, errs.New(errs.InvalidParams, "", "%s takes no parameters, got %.200q", r.URL.Path, r.URL.RawQuery))
		case hasBody(r):
			w.Header().Set("Connection", "close")
			fail(w, http.StatusBadRequest, errs.New(errs.InvalidParams, "", "%s takes no body", r.URL.Path))
		default:
			next(w, r)
		}
	}
}

func hasBody(r *http.Request) bool {
	if r.ContentLength == 0 || r.Body == nil {
		return false
	}
	n, err := io.ReadFull(r.Body, make([]byte, 1))
	return n > 0 || !errors.Is(err, io.EOF)
}

func (h *handler) process(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, h.who) }

func (h *handler) plugins(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, Plugins{Process: h.who, Plugins: append([]pluginhost.Instance{}, h.host.Instances()...)})
}

func (h *handler) reload(w http.ResponseWriter, r *http.Request) {
	id := plugin.ID{Kind: r.PathValue("kind"), Name: r.PathValue("name")}
	if err := id.Validate(); err != nil {
		fail(w, http.StatusBadRequest, errs.Wrap(errs.InvalidParams, "", err))
		return
	}
	if !h.reloading.TryLock() {
		fail(w, http.StatusConflict, errs.New(errs.UnavailableInCurrentStatus, "", "another plugin of this process is being loaded anew; try again when that has ended"))
		return
	}
	defer h.reloading.Unlock()
	before, ok := h.find(id)
	if !ok {
		fail(w, http.StatusNotFound, errs.New(errs.FileNotFound, "", "%s is not in use here", id))
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(ReloadTimeout + time.Minute)) // Without, it is cut off and the client says so.
	// What has begun is not left half done because whoever asked went away.
	ctx, cancel := context.WithTimeout(h.ctx, ReloadTimeout)
	defer cancel()
	h.log.Info("admin socket: a plugin is loaded anew", "plugin", id.String())
	after, err := h.replace(ctx, id)
	if err != nil {
		h.log.Warn("admin socket: the reload failed", "plugin", id.String(), "error", err)
		fail(w, statusOf(err), err)
		return
	}
	reply(w, http.StatusOK, Reloaded{before, after})
}

func (h *handler) replace(ctx context.Context, id plugin.ID) (pluginhost.Instance, error) {
	host, ok := h.host.(Reloader)
	if !ok {
		return pluginhost.Instance{}, errs.New(errs.NotSupported, "", "this process cannot replace its plugins; start it again")
	}
	return host.Reload(ctx, id)
}

func (h *handler) find(id plugin.ID) (pluginhost.Instance, bool) {
	for _, in := range h.host.Instances() {
		if in.ID() == id {
			return in, true
		}
	}
	return pluginhost.Instance{}, false
}

// failure is the answer to what did not work.
type failure struct {
	Error struct {
		Code    int32  `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

func statusOf(err error) int {
	switch errs.CodeOf(err) {
	case errs.InvalidParams:
		return http.StatusBadRequest
	case errs.FileNotFound:
		return http.StatusNotFound
	case errs.UnavailableInCurrentStatus, errs.UnavailableInCurrentMode:
		return http.StatusConflict
	case errs.NotSupported:
		return http.StatusNotImplemented
	default:
		return http.StatusInternalServerError
	}
}

func fail(w http.ResponseWriter, status int, err error) {
	var f failure
	f.Error.Code, f.Error.Message = int32(errs.CodeOf(err)), err.Error()
	reply(w, status, f)
}

func reply(w http.ResponseWriter, status int, v any) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		status = http.StatusInternalServerError
		buf.Reset()
		_, _ = buf.WriteString("encode the answer: " + err.Error())
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(buf.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(buf.Bytes()) // The client is gone: the error has no recipient.
}

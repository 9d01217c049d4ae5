package rest

import (
	"bufio"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

type replica struct {
	Size     uint64 `json:"size_"`
	Address  uint64 `json:"buffer_address_"`
	Protocol string `json:"protocol_"`
	Endpoint string `json:"transport_endpoint_"`
}

func replicas(o model.Object) []replica {
	out := make([]replica, 0, len(o.Replicas))
	for _, r := range o.Replicas {
		out = append(out, replica{Size: r.Size, Address: r.Address, Protocol: r.Protocol, Endpoint: r.Endpoint})
	}
	return out
}

// queryKey grants a read lease, because upstream's does.
func (h *handler) queryKey(w http.ResponseWriter, r *http.Request) {
	key := r.URL.Query().Get("key")
	if err := model.ValidateKey(key); err != nil {
		h.sendError(w, r, err)
		return
	}
	res, err := h.master.GetReplicas(r.Context(), model.Caller{}, []model.Key{key})
	if err == nil && len(res) != 1 {
		err = errs.New(errs.Internal, "admin: query key", "%d answers for one key", len(res))
	}
	if err == nil {
		err = res[0].Err
	}
	if err != nil {
		h.sendError(w, r, err)
		return
	}
	sendJSON(w, http.StatusOK, struct {
		Success bool      `json:"success"`
		Data    []replica `json:"data"`
	}{true, replicas(res[0].Value)})
}

// keyAnswer is one key of batchQueryKeys. The kinds of replicas that do not exist here
// are null.
type keyAnswer struct {
	OK        bool      `json:"ok"`
	Error     *string   `json:"error"`
	Values    []replica `json:"values"`
	Disk      []replica `json:"disk_values"`
	LocalDisk []replica `json:"local_disk_values"`
	NoF       []replica `json:"nof_values"`
}

// batchQueryKeys reads without a lease. A key that is asked for twice appears once.
func (h *handler) batchQueryKeys(w http.ResponseWriter, r *http.Request) {
	var keys []model.Key
	for _, k := range strings.Split(r.URL.Query().Get("keys"), ",") {
		if k != "" {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		sendJSON(w, http.StatusBadRequest, struct {
			Success bool   `json:"success"`
			Error   string `json:"error"`
		}{false, "No keys provided. Use ?keys=key1,key2,..."})
		return
	}
	data := make(map[string]keyAnswer, len(keys))
	for i, res := range h.master.PeekReplicas(keys) {
		if i >= len(keys) {
			break
		}
		if res.Err != nil {
			name := errs.CodeOf(res.Err).String()
			data[keys[i]] = keyAnswer{Error: &name}
			continue
		}
		data[keys[i]] = keyAnswer{OK: true, Values: replicas(res.Value)}
	}
	sendJSON(w, http.StatusOK, struct {
		Success bool                 `json:"success"`
		Data    map[string]keyAnswer `json:"data"`
	}{true, data})
}

// writeGrace is how long the reader of a stream may take for one buffer of it.
const writeGrace = 10 * time.Second

// allKeys streams a line a key; memory does not grow with their number. A key that
// contains a line feed cannot be told from two.
func (h *handler) allKeys(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", typeMetrics)
	control := http.NewResponseController(w)
	out := bufio.NewWriterSize(deadlineWriter{w, control}, 64<<10)
	h.master.WalkKeys(func(k model.Key) bool {
		if r.Context().Err() != nil {
			return false
		}
		_, err := out.WriteString(k)
		if err == nil {
			err = out.WriteByte('\n')
		}
		return err == nil
	})
	_ = out.Flush() // The client is gone; nobody is left to tell.
}

// deadlineWriter gives every write its own bound, where the connection can have one.
type deadlineWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

func (d deadlineWriter) Write(b []byte) (int, error) {
	_ = d.control.SetWriteDeadline(time.Now().Add(writeGrace)) // Without it the server's bound stays.
	return d.w.Write(b)
}

// removeAll deletes what may be removed. There is one tenant, whose name is "default" or
// left out.
func (h *handler) removeAll(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if t := q.Get("tenant_id"); t != "" && t != "default" {
		h.sendError(w, r, errs.New(errs.TenantNotRegistered, "admin: remove all", "no tenant %q", t))
		return
	}
	force := false
	if v := q.Get("force"); v != "" {
		var err error
		if force, err = strconv.ParseBool(v); err != nil {
			h.sendError(w, r, errs.Wrap(errs.InvalidParams, "admin: remove all: force", err))
			return
		}
	}
	n, err := h.master.RemoveAll(r.Context(), model.Caller{}, force)
	if err != nil {
		h.sendError(w, r, err)
		return
	}
	sendJSON(w, http.StatusOK, struct {
		Success bool `json:"success"`
		Removed int  `json:"removed_count"`
	}{true, n})
}

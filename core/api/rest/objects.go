package rest

import (
	"bufio"
	"context"
	"net/http"
	"slices"
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

// replicas lists every part of every copy in memory.
func replicas(o model.Object) []replica {
	out := make([]replica, 0, len(o.Replicas))
	for i := range o.Replicas {
		if o.Replicas[i].OnTier() {
			continue
		}
		for _, p := range o.Replicas[i].Parts {
			out = append(out, replica{Size: p.Size, Address: p.Address, Protocol: p.Protocol, Endpoint: p.Endpoint})
		}
	}
	return out
}

// queryKey grants a read lease, because upstream's does, unless it is asked not to.
func (h *handler) queryKey(w http.ResponseWriter, r *http.Request) {
	o, err := h.query(r)
	if errs.Is(err, errs.ReplicaIsNotReady) { // Upstream says of every miss that it is one.
		f := failureOf(err)
		f.Detail = ""
		sendJSON(w, http.StatusNotFound, f)
		return
	}
	if err != nil {
		h.sendError(w, r, err)
		return
	}
	sendData(w, replicas(o))
}

func (h *handler) query(r *http.Request) (o model.Object, err error) {
	q, err := lenient(r)
	if err != nil {
		return o, err
	}
	key, err := q.key()
	if err != nil {
		return o, err
	}
	lease, err := q.flag("lease", true)
	if err != nil {
		return o, err
	}
	if err := h.defaultTenant(r); err != nil {
		return o, err
	}
	var res []model.Result[model.Object]
	if lease {
		res, err = h.master.GetReplicas(r.Context(), model.Caller{}, []model.Key{key}, nil)
	} else {
		res = h.master.PeekReplicas([]model.Key{key})
	}
	switch {
	case err != nil:
		return o, err
	case len(res) != 1:
		return o, errs.New(errs.Internal, "admin: query key", "%d answers for one key", len(res))
	}
	return res[0].Value, res[0].Err
}

// defaultTenant refuses a peer of another tenant than default, which upstream's routes are about.
func (h *handler) defaultTenant(r *http.Request) error {
	_, err := h.doors.Access().Tenant(r.Context(), h.routeOf(r).call, model.DefaultTenant)
	return err
}

// keyAnswer is one key of batchQueryKeys. The kinds of replicas that do not exist here
// are null.
type keyAnswer struct {
	OK        bool        `json:"ok"`
	Error     *string     `json:"error"`
	Values    []replica   `json:"values"`
	Disk      []replica   `json:"disk_values"`
	LocalDisk []localDisk `json:"local_disk_values"`
	NoF       []replica   `json:"nof_values"`
}

// localDisk is a copy on a storage tier.
type localDisk struct {
	Client   string `json:"client_id"`
	Size     uint64 `json:"object_size"`
	Endpoint string `json:"transport_endpoint"`
}

// localDisks lists the copies on storage tiers, nil for none. owners are the clients of the tiers.
func localDisks(o model.Object, owners map[model.SegmentID]model.ClientID) (out []localDisk) {
	for i := range o.Replicas {
		if r := &o.Replicas[i]; r.OnTier() {
			out = append(out, localDisk{Client: owners[r.SegmentID].String(), Size: o.Size, Endpoint: r.Endpoint})
		}
	}
	return out
}

// tierOwners returns the clients of the storage tiers, nil if none of the objects lies on one.
func (h *handler) tierOwners(ctx context.Context, objects []model.Result[model.Object]) (map[model.SegmentID]model.ClientID, error) {
	if !slices.ContainsFunc(objects, func(o model.Result[model.Object]) bool { return localDisks(o.Value, nil) != nil }) {
		return nil, nil //nolint:nilnil // There are none.
	}
	list, err := h.master.Segments(ctx)
	owners := map[model.SegmentID]model.ClientID{}
	for _, s := range list {
		if s.OnTier() {
			owners[s.ID] = s.Client
		}
	}
	return owners, err
}

// batchQueryKeys reads without a lease. A key that is asked for twice appears once.
func (h *handler) batchQueryKeys(w http.ResponseWriter, r *http.Request) {
	q, err := lenient(r)
	if err != nil {
		h.sendError(w, r, err)
		return
	}
	var keys []model.Key
	for k := range strings.SplitSeq(q["keys"], ",") {
		if k != "" {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		sendJSON(w, http.StatusBadRequest, plainFailure{Error: "No keys provided. Use ?keys=key1,key2,..."})
		return
	}
	if err := h.defaultTenant(r); err != nil {
		h.sendError(w, r, err)
		return
	}
	found := h.master.PeekReplicas(keys)
	owners, err := h.tierOwners(r.Context(), found)
	if err != nil {
		h.sendError(w, r, err)
		return
	}
	data := make(map[string]keyAnswer, len(keys))
	for i, res := range found {
		if i >= len(keys) {
			break
		}
		if res.Err != nil {
			name := errs.CodeOf(res.Err).String()
			data[keys[i]] = keyAnswer{Error: &name}
			continue
		}
		data[keys[i]] = keyAnswer{OK: true, Values: replicas(res.Value), LocalDisk: localDisks(res.Value, owners)}
	}
	sendData(w, data)
}

// writeGrace is how long the reader of a stream may take for one buffer of it.
const writeGrace = 10 * time.Second

// allKeys streams a line a key; memory does not grow with their number. A key that
// contains a line feed cannot be told from two.
func (h *handler) allKeys(w http.ResponseWriter, r *http.Request) {
	if err := h.defaultTenant(r); err != nil {
		h.sendError(w, r, err)
		return
	}
	w.Header().Set("Content-Type", typeMetrics)
	if r.Method == http.MethodHead {
		return
	}
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
	_ = out.Flush() // The client is gone: the error has no recipient.
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

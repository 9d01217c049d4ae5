package rest

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// allSegments lists one name a mounted segment: a node with several appears as often.
func (h *handler) allSegments(w http.ResponseWriter, r *http.Request) {
	list, err := h.master.Segments(r.Context())
	if err != nil {
		h.log.Warn("admin: list segments", "error", err)
		send(w, http.StatusInternalServerError, typeMetrics, "Failed to get all segments")
		return
	}
	var b strings.Builder
	for _, s := range list {
		if s.Status == model.SegmentOK && s.AbsentSince.IsZero() && !s.OnTier() { // As upstream lists memory.
			b.WriteString(s.Name)
			b.WriteByte('\n')
		}
	}
	send(w, http.StatusOK, typeMetrics, b.String())
}

// querySegment adds up the segments of a name. The blank before the second colon is what
// scripts parse.
func (h *handler) querySegment(w http.ResponseWriter, r *http.Request) {
	q, err := lenient(r)
	var list []model.SegmentInfo
	if err == nil {
		list, err = h.master.Segments(r.Context())
	}
	name := q["segment"]
	var used, capacity uint64
	found := false
	for _, s := range list {
		if s.Name == name && s.AbsentSince.IsZero() {
			used, capacity, found = used+s.Used, capacity+s.Size, true
		}
	}
	if err != nil || !found {
		send(w, http.StatusInternalServerError, typeMetrics, "Failed to query segment")
		return
	}
	send(w, http.StatusOK, typeMetrics, fmt.Sprintf("%s\nUsed(bytes): %d\nCapacity(bytes) : %d\n", name, used, capacity))
}

type segmentDetail struct {
	Name         string  `json:"segment_name"`
	ID           string  `json:"segment_id"`
	Client       string  `json:"client_id"`
	Base         string  `json:"base_address"`
	Size         uint64  `json:"size_bytes"`
	SizeHuman    string  `json:"size_human"`
	Endpoint     string  `json:"te_endpoint"`
	Protocol     string  `json:"protocol"`
	Status       string  `json:"status"`
	Used         uint64  `json:"allocator_used_bytes"`
	Capacity     uint64  `json:"allocator_capacity_bytes"`
	UsagePercent float64 `json:"allocator_usage_percent"`
}

func (h *handler) segmentsDetail(w http.ResponseWriter, r *http.Request) {
	list, err := h.master.Segments(r.Context())
	if err != nil {
		h.sendError(w, r, err)
		return
	}
	out := struct {
		Total    int             `json:"total_segments"`
		Segments []segmentDetail `json:"segments"`
	}{Segments: make([]segmentDetail, 0, len(list))}
	for _, s := range list {
		if !s.AbsentSince.IsZero() || s.OnTier() {
			continue // As upstream lists memory.
		}
		out.Total++
		d := segmentDetail{
			Name: s.Name, ID: s.ID.String(), Client: s.Client.String(), Base: fmt.Sprintf("0x%x", s.Base),
			Size: s.Size, SizeHuman: human(s.Size), Endpoint: s.Endpoint, Protocol: s.Protocol, Status: s.Status.String(),
			Used: s.Used, Capacity: s.Size,
		}
		if s.Size > 0 {
			d.UsagePercent = 100 * float64(s.Used) / float64(s.Size)
		}
		out.Segments = append(out.Segments, d)
	}
	sendJSON(w, http.StatusOK, out)
}

// human is a size in GiB with at most six digits, whatever the size.
func human(n uint64) string { return fmt.Sprintf("%.6g GiB", float64(n)/(1<<30)) }

// Segment is a mounted piece of memory.
type Segment struct {
	Name     string `json:"name"`
	ID       string `json:"id"`
	Client   string `json:"client_id"`
	Host     string `json:"host_id"`
	Endpoint string `json:"endpoint"`
	Protocol string `json:"protocol"`
	Base     string `json:"base_address"`
	Size     uint64 `json:"size_bytes"`
	Used     uint64 `json:"used_bytes"`
	// Weight is the share of new objects that it gets beside a healthy one, 0 to 1.
	Weight float64 `json:"weight"`
	Status string  `json:"status"`
	// Deadline is when a graceful unmount becomes final, nil where none is in progress.
	Deadline *time.Time `json:"deadline"`
	// Writing is what unfinished puts take, Held what is held back: a writer that was given up or a last
	// reader may still use it.
	Writing uint64 `json:"unfinished_bytes"`
	Held    uint64 `json:"held_bytes"`
	// AbsentSince is since when the node is silent, nil if it is not.
	AbsentSince *time.Time `json:"absent_since"`
	// Adopted is how many objects the master took over from the segment's ledger.
	Adopted uint64 `json:"adopted_objects"`
	// Keeper is what keeps it beyond the life of its store's process, empty for nothing.
	Keeper string `json:"keeper"`
}

func (h *handler) listSegments(a *asked) ([]Segment, error) {
	list := try(a, func() ([]model.SegmentInfo, error) { return h.master.Segments(a.Context()) })
	out := make([]Segment, 0, len(list))
	for _, s := range list {
		out = append(out, Segment{
			Name: s.Name, ID: s.ID.String(), Client: s.Client.String(), Host: s.HostID, Endpoint: s.Endpoint, Protocol: s.Protocol,
			Base: fmt.Sprintf("0x%x", s.Base), Size: s.Size, Used: s.Used, Weight: s.Weight, Status: s.Status.String(), Deadline: moment(s.Deadline),
			Writing: s.Writing, Held: s.Held, AbsentSince: moment(s.AbsentSince), Adopted: s.Adopted, Keeper: s.Keeper,
		})
	}
	return out, a.err
}

// segmentAnswer is the state of a segment as upstream words it.
type segmentAnswer struct {
	Success bool   `json:"success"`
	Segment string `json:"segment"`
	Status  int32  `json:"status"`
	Name    string `json:"status_name"`
	Code    int32  `json:"error_code"`
	Message string `json:"error_message"`
}

func (h *handler) segmentStatus(a *asked) (segmentAnswer, error) {
	const op = "admin: segment status"
	name := a.query["segment"]
	a.do(func() error {
		if name == "" {
			return errs.New(errs.InvalidParams, op, "Missing segment query parameter")
		}
		return nil
	})
	list := try(a, func() ([]model.SegmentInfo, error) { return h.master.Segments(a.Context()) })
	var status model.SegmentStatus
	found := false
	for _, s := range list {
		if s.Name == name && s.AbsentSince.IsZero() {
			status, found = max(status, s.Status), true
		}
	}
	if a.err == nil && !found {
		a.err = errs.New(errs.SegmentNotFound, op, "no segment %.200q is mounted", name)
	}
	return segmentAnswer{Success: true, Segment: name, Status: int32(status), Name: status.String()}, a.err
}

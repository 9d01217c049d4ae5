package rest

import (
	"fmt"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// DrainRequest is the body that creates a drain job.
type DrainRequest struct {
	Segments []string `json:"segments"`
	Targets  []string `json:"target_segments,omitempty"`
	// MaxConcurrency is 1 to 1024; left out it is 4.
	MaxConcurrency *int `json:"max_concurrency,omitempty"`
}

// Bounds of a drain job.
const (
	defaultMoves = 4
	maxMoves     = 1024
)

func (d DrainRequest) spec() (model.DrainSpec, error) {
	spec := model.DrainSpec{Segments: d.Segments, Targets: d.Targets, MaxConcurrency: defaultMoves}
	if len(d.Segments) == 0 {
		return spec, errs.New(errs.InvalidParams, "admin: drain job", "segments is empty; name the segments to empty")
	}
	if d.MaxConcurrency != nil {
		spec.MaxConcurrency = *d.MaxConcurrency
	}
	if spec.MaxConcurrency < 1 || spec.MaxConcurrency > maxMoves {
		return spec, errs.New(errs.InvalidParams, "admin: drain job", "max_concurrency is %d; it is a number from 1 to %d", spec.MaxConcurrency, maxMoves)
	}
	return spec, nil
}

// jobAnswer is the answer to creating and to cancelling a job.
type jobAnswer struct {
	Success bool   `json:"success"`
	ID      string `json:"job_id"`
	Status  string `json:"status"`
	Code    int32  `json:"error_code"`
	Message string `json:"error_message"`
}

// Job is a drain job.
type Job struct {
	Success  bool     `json:"success"`
	ID       string   `json:"job_id"`
	Type     int32    `json:"type"`
	TypeName string   `json:"type_name"`
	Status   int32    `json:"status"`
	Name     string   `json:"status_name"`
	Created  int64    `json:"created_at_ms_epoch"`
	Updated  int64    `json:"last_updated_at_ms_epoch"`
	Segments []string `json:"segments"`
	// Units are objects on segments.
	Succeeded uint64 `json:"succeeded_units"`
	Failed    uint64 `json:"failed_units"`
	Blocked   uint64 `json:"blocked_units"`
	Active    uint64 `json:"active_units"`
	Migrated  uint64 `json:"migrated_bytes"`
	Text      string `json:"message"`
	Code      int32  `json:"error_code"`
	Message   string `json:"error_message"`
}

// createDrainJob ignores names that it does not know: clients of upstream's send limits
// of bandwidth, which it ignores as well.
func (h *handler) createDrainJob(a *asked) (jobAnswer, error) {
	var body DrainRequest
	a.json(&body, false)
	spec := try(a, body.spec)
	a.about = fmt.Sprintf("segments %.500q, targets %.500q", body.Segments, body.Targets)
	id := try(a, func() (model.JobID, error) { return h.master.CreateDrainJob(a.Context(), spec) })
	return jobAnswer{Success: true, ID: id.String(), Status: model.JobCreated.String()}, a.err
}

func (h *handler) queryDrainJob(a *asked) (Job, error) {
	id := a.id("job_id")
	j := try(a, func() (model.DrainJob, error) { return h.master.DrainJob(a.Context(), id) })
	return Job{
		Success: true, ID: j.ID.String(), TypeName: "DRAIN", Status: int32(j.Status), Name: j.Status.String(),
		Created: j.Created.UnixMilli(), Updated: j.Updated.UnixMilli(), Segments: append([]string{}, j.Spec.Segments...),
		Succeeded: j.Succeeded, Failed: j.Failed, Blocked: j.Blocked, Active: j.Active, Migrated: j.MigratedBytes, Text: j.Message,
	}, a.err
}

func (h *handler) cancelDrainJob(a *asked) (jobAnswer, error) {
	id := a.id("job_id")
	a.do(func() error { return h.master.CancelDrainJob(a.Context(), id) })
	return jobAnswer{Success: true, ID: id.String(), Status: model.JobCanceled.String()}, a.err
}

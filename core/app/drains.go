package app

import (
	"sync"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// drains are the drain jobs that were begun at this admin port. Each has a job in every cell that knows its segments.
type drains struct {
	mu   sync.Mutex
	jobs map[model.JobID][]model.JobID // of each cell, zero where it has none
	list []model.JobID                 // the oldest first
}

// maxDrains is how many jobs are remembered.
const maxDrains = 256

func (d *drains) add(cells []model.JobID) model.JobID {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.jobs == nil {
		d.jobs = map[model.JobID][]model.JobID{}
	}
	if len(d.list) >= maxDrains {
		delete(d.jobs, d.list[0])
		d.list = d.list[1:]
	}
	id := model.NewUUID()
	d.jobs[id] = cells
	d.list = append(d.list, id)
	return id
}

func (d *drains) get(id model.JobID) ([]model.JobID, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if cells := d.jobs[id]; cells != nil {
		return cells, nil
	}
	return nil, errs.WithHint(errs.New(errs.JobNotFound, "admin: drain job", "there is no job %v here", id), "ask the admin port at which it was begun")
}

package peers

import (
	"context"

	"github.com/mooncake-go/mooncake/bench/drive"
	"github.com/mooncake-go/mooncake/bench/peers/internal/lines"
)

// Driver is a process that does the jobs of package drive, in Go or in Python.
type Driver struct{ lines *lines.Client }

// Do has one job done.
func (d *Driver) Do(ctx context.Context, job drive.Job) (drive.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, jobLimit)
	defer cancel()
	var a drive.Answer
	return a, d.lines.Do(ctx, job, &a)
}

// PID is the number of the process.
func (d *Driver) PID() int { return d.lines.PID() }

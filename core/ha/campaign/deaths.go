package campaign

import (
	"context"
	"errors"
	"log/slog"
	"syscall"
	"time"

	"github.com/mooncake-go/mooncake/core/ha"
)

const (
	// holdPause is the pause between two connections to the leader.
	holdPause = 50 * time.Millisecond
	// deposeInterval is the least time between two leaders that this master takes for dead: what refuses
	// connections for a living leader, such as a mesh, then costs a pause now and then at most.
	deposeInterval = time.Minute
)

// deaths tells the death of a leader from a leader that cannot be reached.
type deaths struct {
	hold func(ctx context.Context, address string) error
	log  *slog.Logger
	last time.Time // when a leader counted as dead
}

// await returns true when the leader of a view is dead: this master was connected to it, the connection has
// ended, and the machine refuses another one, since no process listens. It returns false when ctx ends. A leader
// that is not of this program never counts as dead.
func (d *deaths) await(ctx context.Context, v ha.View) bool {
	if v.Foreign {
		<-ctx.Done()
		return false
	}
	for known := false; ; {
		err := d.hold(ctx, v.Address)
		switch {
		case ctx.Err() != nil:
			return false
		case err == nil:
			known = true // The next attempt finds out.
		case known && errors.Is(err, syscall.ECONNREFUSED) && time.Since(d.last) >= deposeInterval:
			d.last = time.Now()
			d.log.Warn("the leader does not serve: its machine refuses connections; this master takes over if it can", "leader", v.Address)
			return true
		}
		select {
		case <-time.After(holdPause):
		case <-ctx.Done():
			return false
		}
	}
}

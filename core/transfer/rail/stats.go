package rail

import (
	"time"
)

// Stats is a rail of a path, with its activity since the path was opened.
type Stats struct {
	// ID is that of the transport, Local and Remote are the devices.
	ID            uint16
	Local, Remote string
	// State is up, down (says the transport), paused (after errors), or returning.
	State string
	// Bytes and Slices arrived; Errors counts the slices that failed, and Pauses how often the
	// rail was paused.
	Bytes, Slices, Errors, Pauses uint64
	// Inflight is the number of bytes in flight.
	Inflight uint64
	// Speed is the measured speed in bytes per second, 0 before it is known.
	Speed float64
}

// Stats returns the rails with their activity.
func (r *Set) Stats() []Stats {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Stats, 0, len(r.list))
	for _, w := range r.list {
		s := Stats{
			ID: uint16(w.ID), Local: w.Local, Remote: w.Remote, State: "down", Bytes: w.moved, Slices: w.ended, Errors: w.errors,
			Pauses: w.health.pauses, Inflight: uint64(w.bytes), Speed: w.speed.mean,
		}
		if w.Up {
			s.State = w.health.state(now)
		}
		out = append(out, s)
	}
	return out
}

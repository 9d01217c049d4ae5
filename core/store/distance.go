package store

import (
	"sync/atomic"
	"time"
)

// roundTrips is how many round trips to the master count as long as MasterDownTimeout. TCP sends
// what was lost again after two of them, and waits twice as long each time.
const roundTrips = 25

// farDownTimeout is the most that a far master makes of MasterDownTimeout.
const farDownTimeout = 5 * time.Second

// distance is the least time that the master took to answer a ping, or whether it is there, in
// nanoseconds; 0 before the first answer.
type distance struct{ least atomic.Int64 }

// note takes in a call that was answered.
func (d *distance) note(took time.Duration) {
	for {
		old := d.least.Load()
		if old != 0 && int64(took) >= old || took <= 0 {
			return
		}
		if d.least.CompareAndSwap(old, int64(took)) {
			return
		}
	}
}

// downTimeout is MasterDownTimeout, or as long as it takes to tell a master that is down from one
// that is far.
func (s *Session) downTimeout() time.Duration {
	return max(s.cfg.MasterDownTimeout, min(roundTrips*time.Duration(s.distance.least.Load()), farDownTimeout))
}

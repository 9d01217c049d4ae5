package tier

import (
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

const (
	// A rate is computed from what is read in leastSample or more, from when deep bytes are asked for until only few are: with
	// less, it would be that of the readers. longSample bytes end a sample that goes on.
	leastSample, longSample = 50 * time.Millisecond, 16 << 20
	deep, few               = 2 << 20, 256 << 10
	// slowRead is the mean time of a read from which the storage counts as slow.
	slowRead = 500 * time.Millisecond
	// calm is how long after the last read the storage does not count as slow any more, and how often something is saved
	// while it is slow.
	calm = time.Second
)

// pace is how fast the storage has read of late.
type pace struct {
	reads int       // that have not ended
	ahead uint64    // their bytes
	last  time.Time // at which a read ended

	sampling  bool
	since     time.Time // what is read counts from then on
	bytes     uint64    // of the sample, and how long they took
	busy      time.Duration
	perSecond float64 // bytes; 0 until it is known

	took  time.Duration // by a read, averaged over the last ones
	saved time.Time     // the last time that something was saved although the storage was slow
}

// begin counts a read of n bytes. It returns an error, and counts nothing, where the storage would not have read them by
// the deadline. Where no other read is waiting, it is tried in any case.
func (p *pace) begin(now, deadline time.Time, n uint64) error {
	if p.reads > 0 && p.perSecond > 0 {
		wait, left := float64(p.ahead+n)/p.perSecond, max(0, deadline.Sub(now))
		if wait > left.Seconds() {
			return errs.WithHint(errs.New(errs.UnavailableInCurrentStatus, "storage tier", "it is busy: with the %d bytes that it reads first, this read takes about %.1f s, and the reader waits for %s",
				p.ahead, wait, left.Round(time.Millisecond)), "read another replica, or try again")
		}
	}
	if p.reads == 0 && now.Sub(p.last) > calm {
		p.took = 0
	}
	p.reads++
	p.ahead += n
	if !p.sampling && p.ahead >= deep {
		p.sampling, p.since = true, now
	}
	return nil
}

// end counts the end of a read of n bytes that began at began. done says that it has read them.
func (p *pace) end(now, began time.Time, n uint64, done bool) {
	p.last = now
	p.reads--
	p.ahead -= n
	p.took += (now.Sub(began) - p.took) / 8
	if !p.sampling {
		return
	}
	p.busy += now.Sub(p.since)
	p.since, p.sampling = now, p.ahead >= few
	if done {
		p.bytes += n
	}
	if p.busy < leastSample || p.bytes == 0 || p.sampling && p.bytes < longSample {
		return
	}
	recent := float64(p.bytes) / p.busy.Seconds()
	if p.perSecond == 0 {
		p.perSecond = recent
	}
	p.perSecond = (p.perSecond + recent) / 2
	p.bytes, p.busy = 0, 0
}

// maySave reports whether something may be saved now: at any time, unless readers wait long; then once a second, to try.
func (p *pace) maySave(now time.Time) bool {
	if p.took <= slowRead || (p.reads == 0 && now.Sub(p.last) > calm) {
		return true
	}
	if now.Sub(p.saved) < calm {
		return false
	}
	p.saved = now
	return true
}

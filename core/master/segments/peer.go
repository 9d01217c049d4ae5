package segments

import (
	"math"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/model"
)

const (
	// window is how long a report counts, at least; at most twice as long.
	window = 5 * time.Second
	// enoughBytes is what one reporter must have moved within the window for a speed.
	enoughBytes = 64 << 20
	// maxReporters bounds the clients of which reports are kept per endpoint; further
	// ones are left out until one of them falls silent.
	maxReporters = 64
	// loneShare is the most that one reporter's failures count for, as a share of all
	// transfers, while another reporter mostly succeeds: the fault may be its own.
	loneShare = 0.25
)

// peer is what is known of the node behind one endpoint.
type peer struct {
	tallies map[model.ClientID]*tally
	// level was the weight at the instant since, the last of the bad news.
	level float64
	since lease.Instant
}

func newPeer() *peer { return &peer{tallies: map[model.ClientID]*tally{}, level: 1} }

// tally is what one client reported, in two pieces of the window.
type tally struct {
	from      lease.Instant // begin of now
	now, past sums
}

type sums struct {
	done, failed, bytes uint64
	busy                time.Duration
}

// turn moves the window to now.
func (t *tally) turn(now lease.Instant) {
	switch age := now.Sub(t.from); {
	case age >= 2*window:
		t.past, t.now, t.from = sums{}, sums{}, now
	case age >= window:
		t.past, t.now, t.from = t.now, sums{}, t.from.Add(window)
	}
}

func (t *tally) total() sums {
	return sums{
		done: t.past.done + t.now.done, failed: t.past.failed + t.now.failed,
		bytes: t.past.bytes + t.now.bytes, busy: t.past.busy + t.now.busy,
	}
}

func (p *peer) add(from model.ClientID, r model.PeerReport, now lease.Instant) {
	t := p.tallies[from]
	if t == nil {
		if len(p.tallies) >= maxReporters {
			return
		}
		t = &tally{from: now}
		p.tallies[from] = t
	}
	t.turn(now)
	t.now.done += uint64(r.Done)
	t.now.failed += uint64(r.Failed)
	// No node moves more than 2^60 bytes or is busy for longer than that in a window; a report
	// that claims so must not overflow the totals.
	t.now.bytes = min(t.now.bytes+min(r.Bytes, 1<<60), 1<<60)
	t.now.busy = min(t.now.busy+min(max(r.Busy, 0), 1<<60), 1<<60)
}

// expire forgets the reporters that have said nothing within the window.
func (p *peer) expire(now lease.Instant) {
	for id, t := range p.tallies {
		t.turn(now)
		if t.total() == (sums{}) {
			delete(p.tallies, id)
		}
	}
}

// failed returns the share of failed transfers, over all reporters by the number of their
// transfers. It must not depend on one client alone: see loneShare.
func (p *peer) failed(now lease.Instant) float64 {
	var all float64
	fine := 0
	for _, t := range p.tallies {
		t.turn(now)
		s := t.total()
		all += float64(s.done + s.failed)
		if s.done > s.failed {
			fine++
		}
	}
	var ratio float64
	for _, t := range p.tallies {
		s := t.total()
		if s.failed == 0 {
			continue
		}
		others := fine
		if s.done > s.failed {
			others--
		}
		part := float64(s.failed) / all
		if others > 0 {
			part = min(part, loneShare)
		}
		ratio += part
	}
	return min(ratio, 1)
}

// failureWeight returns the weight of a node of whose transfers a share failed.
func failureWeight(ratio float64) float64 {
	return max(math.Exp2(-ratio/failureStep), floorWeight)
}

// speed returns the median of the speeds, in bytes a second, that the reporters with
// enough bytes saw; of two the higher one. false without such a reporter.
func (p *peer) speed(now lease.Instant) (float64, bool) {
	var all []float64
	for _, t := range p.tallies {
		t.turn(now)
		if s := t.total(); s.bytes >= enoughBytes && s.busy > 0 {
			all = append(all, float64(s.bytes)/s.busy.Seconds())
		}
	}
	if len(all) == 0 {
		return 0, false
	}
	slices.Sort(all)
	return all[len(all)/2], true
}

// cut lowers the weight to w. News that is no worse than what is known does not hold up
// the way back.
func (p *peer) cut(w float64, now lease.Instant) {
	if w < p.weight(now) {
		p.level, p.since = w, now
	}
}

// weight returns what the transfers say of the node.
func (p *peer) weight(now lease.Instant) float64 {
	if p.level >= 1 {
		return 1
	}
	return min(p.level+share(now.Sub(p.since), recoverIn), 1)
}

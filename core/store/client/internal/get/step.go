package get

import (
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/internal/fragment"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

const (
	// stepSize bounds a step, in bytes. No step crosses a multiple of it, so that steps end with grains.
	stepSize = maxStageBytes
	// stepPage is the least that a storage reads, in bytes: ranges that are closer are staged together.
	stepPage = 4 << 10
)

// step is a range of an object that a node stages at once for an item, with what the item reads of it.
type step struct {
	item   *Item  // nil if it does not want the bytes any more
	lo, hi uint64 // in the object, in bytes
	parts  []store.Fragment
	layout fragment.Layout // of the fragments of the item before them
	state  stepState
	err    error // why it was not staged

	at         model.Replica // where byte 0 of the object would be staged; only the step is there
	expires    time.Time     // when the node may have freed it, by boottime.Time
	first, end int           // its requests
}

// stepState is how far a step is.
type stepState uint8

const (
	stepWanted  stepState = iota
	stepAsked             // of the node
	stepStaged            // and to be transferred
	stepArrived           // and counted in the checksums
)

// wanted returns the fragments that are read of the object.
func (it *Item) wanted() []store.Fragment {
	if it.cover.parts != nil {
		return it.cover.parts
	}
	return it.fragments
}

// divide makes the steps of an item, in the order of what it reads.
func (it *Item) divide() {
	if it.steps != nil {
		return
	}
	l := fragment.Layout{Grain: it.cover.grain}
	for _, f := range it.wanted() {
		for len(f.Mem) > 0 {
			n := min(uint64(len(f.Mem)), stepSize-f.Offset%stepSize)
			if k := len(it.steps); k == 0 || !it.steps[k-1].takes(f.Offset) {
				it.steps = append(it.steps, step{item: it, lo: f.Offset, layout: l})
			}
			s, part := &it.steps[len(it.steps)-1], store.Fragment{Offset: f.Offset, Mem: f.Mem[:n]}
			s.parts, s.hi = append(s.parts, part), max(s.hi, f.Offset+n)
			if l.Grain > 0 {
				l.Next(&part)
			}
			f.Offset, f.Mem = f.Offset+n, f.Mem[n:]
		}
	}
	it.left, it.checksum, it.computed = len(it.steps), 0, true
	clear(it.cover.got)
}

// takes reports whether a fragment at an offset is staged with the step.
func (s *step) takes(off uint64) bool {
	return off >= s.lo && off <= (s.hi+stepPage-1)&^(stepPage-1) && off/stepSize == s.lo/stepSize
}

// restart forgets what has arrived of the replica to try. What nodes are staging for the item is not used.
func (it *Item) restart() {
	for i := range it.steps {
		it.steps[i].item = nil
	}
	it.steps, it.late = nil, false
}

// staged yields the steps to transfer now.
func (it *Item) staged(yield func(*step) bool) {
	for i := range it.steps {
		if s := &it.steps[i]; s.state == stepStaged && !yield(s) {
			return
		}
	}
}

// kept returns until when the nodes keep what they staged for the transfer.
func (it *Item) kept() (until time.Time) {
	for s := range it.staged {
		if until.IsZero() || s.expires.Before(until) {
			until = s.expires
		}
	}
	return until
}

// arrive counts the steps that were transferred.
func (it *Item) arrive(reqs []transfer.Request, results []transfer.Result) {
	for s := range it.staged {
		sum, ok := fragment.ChecksumOfTransfer(reqs[s.first:s.end], results[s.first:s.end])
		it.checksum ^= crc32c.Shift(sum, it.object.Size-s.hi)
		it.computed = it.computed && ok
		s.state = stepArrived
		it.left--
	}
	it.late = false
}

// unfinished reports whether steps of the replica to try are left.
func (it *Item) unfinished() bool { return onTier(it) && it.left > 0 }

package put

import (
	"slices"
	"sync"

	"github.com/mooncake-go/mooncake/core/model"
)

// maxEnds is how many ends of puts a writer remembers, and maxEndGrains up to how many checksums of grains with one: more
// than a master answers in the milliseconds before its ledgers have them.
const maxEnds, maxEndGrains = 4096, 64

// ends are the last ends of puts that a master answered. Those of the last milliseconds are lost with a master that is
// killed, so the writer repeats them at the next one.
type ends struct {
	mu   sync.Mutex
	ring []model.EndItem
	next int // where the next one goes in a full ring
	// grains is memory for those of the next ones, so that a put allocates nothing as a rule.
	grains []uint32
}

func (e *ends) add(it *model.EndItem) {
	kept := *it
	if len(kept.Grains) > maxEndGrains {
		return // A large object, of which few can be lost.
	}
	if len(kept.Grains) > 0 {
		if cap(e.grains)-len(e.grains) < len(kept.Grains) {
			e.grains = make([]uint32, 0, 64*maxEndGrains)
		}
		at := len(e.grains)
		e.grains = append(e.grains, kept.Grains...)
		kept.Grains = e.grains[at:len(e.grains):len(e.grains)]
	}
	if len(e.ring) < maxEnds {
		e.ring = append(e.ring, kept)
		return
	}
	e.ring[e.next] = kept
	e.next = (e.next + 1) % maxEnds
}

// before takes those out that masters of earlier epochs answered.
func (e *ends) before(epoch uint64) (out []model.EndItem) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var rest []model.EndItem
	for _, it := range slices.Concat(e.ring[e.next:], e.ring[:e.next]) {
		if model.PutEpoch(it.Put) < epoch {
			out = append(out, it)
		} else {
			rest = append(rest, it)
		}
	}
	e.ring, e.next = rest, 0
	return out
}

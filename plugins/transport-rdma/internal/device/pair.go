package device

import (
	"sync"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/verbs"
)

// PairOwner uses a queue pair. Several goroutines may call it at the same time.
type PairOwner interface {
	// Take handles results of the queue pair. They may come out of order, since several goroutines
	// fetch them.
	Take(results []verbs.Result)
	// Failed handles an event of the queue pair; cause describes it.
	Failed(event verbs.EventType, cause error)
}

// Pair is one queue pair.
type Pair struct {
	*verbs.QP
	// PSN is the number of its first packet.
	PSN   uint32
	owner PairOwner
	tag   uint64
}

// Numbers returns the numbers of queue pairs and their first packet numbers.
func Numbers(pairs []*Pair) (qps, psns []uint32) {
	for _, p := range pairs {
		qps, psns = append(qps, p.Num()), append(psns, p.PSN)
	}
	return qps, psns
}

// tagTable finds the queue pair of a result or an event. No tag is used twice, so that a late event
// of a queue pair that is gone finds nothing. Safe for concurrent use.
type tagTable struct {
	mu    sync.RWMutex
	last  uint64
	pairs map[uint64]*Pair
}

// add gives p its tag.
func (t *tagTable) add(p *Pair) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pairs == nil {
		t.pairs = map[uint64]*Pair{}
	}
	t.last++
	p.tag = t.last
	t.pairs[p.tag] = p
}

func (t *tagTable) get(tag uint64) *Pair {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.pairs[tag]
}

// drop takes p out. All its results have been seen.
func (t *tagTable) drop(p *Pair) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.pairs, p.tag)
}

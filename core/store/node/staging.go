package node

import (
	"context"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// maxStageReads is how many reads of tiers are in progress at most. Beyond it the node is busy.
const maxStageReads = 256

// staging is the memory through which a node reads and writes its tiers, and what it has read for others.
type staging struct {
	block  *memory.Block
	pool   *memory.Pool
	region transport.RegionID

	mu     sync.Mutex
	reads  int // in progress
	last   uint64
	leases map[uint64]*lease
}

// lease is what one call of Stage has read.
type lease struct {
	buffers []*memory.Buffer
	timer   *time.Timer
}

// get lends n bytes, and waits for them until ctx ends.
func (s *staging) get(ctx context.Context, n int) (*memory.Buffer, error) {
	if s.pool == nil {
		return nil, errs.New(errs.NotSupported, "", "this node has no storage tiers")
	}
	return s.pool.Get(ctx, n)
}

// enter counts n more reads, unless there are too many.
func (s *staging) enter(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reads > 0 && s.reads+n > maxStageReads {
		return false
	}
	s.reads += n
	return true
}

func (s *staging) leave(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads -= n
}

// keep keeps buffers until they are dropped or ttl is over, and names them.
func (s *staging) keep(buffers []*memory.Buffer, ttl time.Duration) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leases == nil {
		s.leases = map[uint64]*lease{}
	}
	s.last++
	id := s.last
	s.leases[id] = &lease{buffers, time.AfterFunc(ttl, func() { s.drop(id) })}
	return id
}

func (s *staging) drop(id uint64) {
	s.mu.Lock()
	l := s.leases[id]
	delete(s.leases, id)
	s.mu.Unlock()
	if l == nil {
		return
	}
	l.timer.Stop()
	for _, b := range l.buffers {
		b.Release()
	}
}

// dropAll drops everything.
func (s *staging) dropAll() {
	s.mu.Lock()
	var ids []uint64
	for id := range s.leases {
		ids = append(ids, id)
	}
	s.mu.Unlock()
	for _, id := range ids {
		s.drop(id)
	}
}

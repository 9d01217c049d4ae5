package node

import (
	"context"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/internal/access"
	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/grant"
)

// maxStageReads is how many reads of tiers are in progress at most. Beyond it the node is busy.
const maxStageReads = 256

// staging is the memory through which a node reads and writes its tiers, and what it has read for others.
type staging struct {
	block  *memory.Block
	pool   *memory.Pool
	region transport.RegionID
	sealer *grant.Sealer // of what was read, nil where readers need no grants

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

// guard returns the book of the staging memory, for which the node makes the grants itself.
func (s *staging) guard(c *clocks) *grant.Book {
	b, own := grant.NewBook(c.now), new(grant.Clock)
	own.Hear(0, 0, 0)
	e := b.Add(grant.Role{Clock: own, Lead: true})
	s.sealer = grant.NewSealer(e.Number, e.Key)
	return b
}

// permit lets the caller of a call read a part of the staging memory, until its clock shows a time; nil where that is not needed.
func (s *staging) permit(ctx context.Context, mem []byte, until time.Duration) *transport.Permit {
	p := access.Of(ctx)
	if s.sealer == nil || p == nil {
		return nil
	}
	g := new(transport.Grant)
	s.sealer.Seal(g, grant.Claim{
		Kind: transport.Read, Offset: memory.AddrOf(mem) - memory.AddrOf(s.block.Bytes()), Length: uint64(len(mem)), Until: until,
	}, grant.SubjectOf(p.Identity.URI()))
	return transport.PermitOf(g)
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

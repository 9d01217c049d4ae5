package evictsim

import (
	"context"
	"fmt"
	"strconv"

	"github.com/mooncake-go/mooncake/core/cells"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

// Hits is what a pool of some size hit, in blocks.
type Hits struct {
	// Blocks that were there when they were looked up.
	Blocks int
	// Prefix counts those of them that had no gap before them in their request.
	Prefix int
}

// Optimum counts the hits of Belady's rule, which may decline to insert.
func Optimum(t *Trace, capacity int) (h Hits) {
	hit := belady(t.blocks, capacity)
	begin := 0
	for _, end := range t.ends {
		h.count(hit[begin:end])
		begin = end
	}
	return h
}

// count adds a request, of which hit says for each block whether it was there.
func (h *Hits) count(hit []bool) {
	gap := false
	for _, there := range hit {
		gap = gap || !there
		if there {
			h.Blocks++
		}
		if !gap {
			h.Prefix++
		}
	}
}

// Simulate plays a trace against a policy that has been started and holds nothing, with
// space for capacity blocks, at least 1. It is for one goroutine, and checks ctx at each
// request. An error says what the policy did against its contract.
func Simulate(ctx context.Context, t *Trace, p evict.Policy, capacity int) (Hits, error) {
	return SimulateCells(ctx, t, []evict.Policy{p}, capacity)
}

// SimulateCells is Simulate for a pool that is cut into cells, each with a policy of its own and an equal part of the
// space, at least 1 block. A policy sees the blocks of its cell only.
func SimulateCells(ctx context.Context, t *Trace, policies []evict.Policy, capacity int) (h Hits, err error) {
	n := len(policies)
	of := make([]uint8, t.distinct)
	pools := make([]*pool, n)
	for b := range of {
		of[b] = uint8(cells.Of(strconv.FormatUint(fingerprint(uint32(b)), 16), n))
	}
	for i, p := range policies {
		pools[i] = &pool{
			ctx: ctx, policy: p, free: max((capacity*(i+1))/n-(capacity*i)/n, 1),
			id:      make([]evict.ID, t.distinct),
			block:   []uint32{0},
			victims: make([]evict.Candidate, 0, 1),
		}
	}
	var hit []bool
	before := make([]int, n)
	begin := 0
	for _, end := range t.ends {
		if err := ctx.Err(); err != nil {
			return h, err
		}
		hit = hit[:0]
		for i := range before {
			before[i] = none
		}
		for _, b := range t.blocks[begin:end] {
			c := of[b]
			there, err := pools[c].look(b, before[c])
			if err != nil {
				return h, err
			}
			hit = append(hit, there)
			before[c] = int(b)
		}
		h.count(hit)
		begin = end
	}
	return h, nil
}

// none is no block.
const none = -1

// pool is the master's part, without a byte of memory.
type pool struct {
	ctx    context.Context
	policy evict.Policy
	free   int
	id     []evict.ID // by block, 0 for one that is not there
	block  []uint32   // by ID; IDs are given once
	// Of one call, used again.
	event   [1]evict.Event
	victims []evict.Candidate
	verdict [1]evict.Verdict
}

// look looks a block up and inserts it where it is missing. before is the block before it
// in the request.
func (s *pool) look(b uint32, before int) (there bool, err error) {
	there = s.id[b] != 0
	ev := evict.Event{Op: evict.Access, ID: s.id[b]}
	if !there {
		if s.free == 0 {
			if err := s.makeSpace(); err != nil {
				return false, err
			}
		}
		s.free--
		s.id[b] = evict.ID(len(s.block))
		s.block = append(s.block, b)
		ev = evict.Event{Op: evict.Insert, ID: s.id[b], Size: 1, Fingerprint: fingerprint(b)}
	}
	if before != none && before != int(b) {
		ev.Parent = s.id[before] // 0 where it has had to go already
	}
	s.event[0] = ev
	if err := s.policy.Record(s.ctx, s.event[:]); err != nil {
		return there, fmt.Errorf("record: %w", err)
	}
	return there, nil
}

// makeSpace evicts one block.
func (s *pool) makeSpace() error {
	victims, err := s.policy.Propose(s.ctx, s.victims[:0], 1)
	switch {
	case err != nil:
		return fmt.Errorf("propose: %w", err)
	case len(victims) != 1:
		return fmt.Errorf("the policy proposed %d objects for 1 byte, in a full pool of objects of 1 byte each", len(victims))
	}
	v := victims[0].ID
	if v == 0 || v >= evict.ID(len(s.block)) || s.id[s.block[v]] != v {
		return fmt.Errorf("the policy proposed object %d, which is not in the pool", v)
	}
	s.id[s.block[v]] = 0
	s.free++
	s.verdict[0] = evict.Verdict{ID: v, Evicted: true}
	if err := s.policy.Resolve(s.ctx, s.verdict[:]); err != nil {
		return fmt.Errorf("resolve: %w", err)
	}
	return nil
}

// fingerprint stands for the hash of a block's key. It is never 0.
func fingerprint(b uint32) uint64 {
	h := (uint64(b) + 1) * 0x9E3779B97F4A7C15
	h = (h ^ h>>30) * 0xBF58476D1CE4E5B9
	return h ^ h>>31
}

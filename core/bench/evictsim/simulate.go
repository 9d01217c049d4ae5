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
	// Tier counts those of Prefix that were in the tier only.
	Tier int
	// Promotions counts copies from the tier to memory.
	Promotions int
	// Writes counts inserts in the tier.
	Writes int
}

// place says where a block was found.
type place uint8

const (
	nowhere place = iota
	inMemory
	inTier
)

// Optimum counts the hits of Belady's rule, which may decline to insert.
func Optimum(t *Trace, capacity int) (h Hits) {
	hit := belady(t.blocks, capacity)
	begin := 0
	for _, end := range t.ends {
		gap := false
		for _, there := range hit[begin:end] {
			found := nowhere
			if there {
				found = inMemory
			}
			gap = h.count(found, gap)
		}
		begin = end
	}
	return h
}

// count adds a block, given whether one before it in its request was missing. It returns the same for the next block.
func (h *Hits) count(found place, gap bool) bool {
	if found == nowhere {
		return true
	}
	h.Blocks++
	if !gap {
		h.Prefix++
	}
	if !gap && found == inTier {
		h.Tier++
	}
	return gap
}

// Tier is a second pool behind memory. A block that is in neither is inserted in both; then it leaves each of them
// without regard to the other. The policy sees the inserts and the hits of the tier, with the block before in the
// request as the parent where that is in the tier. It sees no hit in memory.
type Tier struct {
	// Policy has been started and holds nothing.
	Policy evict.Policy
	// Capacity in blocks, at least 1.
	Capacity int
	// Promotion is the hit, counted from 1, at which a block that is in the tier only is copied to memory. At later hits
	// it is copied as well.
	Promotion int
}

// Simulate plays a trace against a policy that has been started and holds nothing, with
// space for capacity blocks, at least 1. It is for one goroutine, and checks ctx at each
// request. An error says what the policy did against its contract.
func Simulate(ctx context.Context, t *Trace, p evict.Policy, capacity int) (Hits, error) {
	return SimulateCells(ctx, t, []evict.Policy{p}, capacity, nil)
}

// SimulateCells is Simulate for a pool that is cut into cells, each with a policy of its own and an equal part of the
// space, at least 1 block. A policy sees the blocks of its cell only. The tier behind memory is not cut; nil is none.
func SimulateCells(ctx context.Context, t *Trace, policies []evict.Policy, capacity int, tier *Tier) (h Hits, err error) {
	n := len(policies)
	of := make([]uint8, t.distinct)
	s := tiers{memory: make([]*pool, n)}
	for b := range of {
		of[b] = uint8(cells.Of(strconv.FormatUint(fingerprint(uint32(b)), 16), n))
	}
	for i, p := range policies {
		if s.memory[i], err = newPool(ctx, t, p, max((capacity*(i+1))/n-(capacity*i)/n, 1)); err != nil {
			return h, err
		}
	}
	if tier != nil {
		if s.tier, err = newPool(ctx, t, tier.Policy, tier.Capacity); err != nil {
			return h, fmt.Errorf("tier: %w", err)
		}
		s.promotion = tier.Promotion
		s.reads = make([]int, t.distinct)
	}
	before := make([]int, n)
	begin := 0
	for _, end := range t.ends {
		if err := ctx.Err(); err != nil {
			return h, err
		}
		for i := range before {
			before[i] = none
		}
		gap := false
		for _, b := range t.blocks[begin:end] {
			c := of[b]
			found, err := s.look(c, b, before[c])
			if err != nil {
				return h, err
			}
			gap = h.count(found, gap)
			before[c] = int(b)
		}
		begin = end
	}
	if tier != nil {
		h.Promotions, h.Writes = s.promoted, len(s.tier.block)-1
	}
	return h, nil
}

// tiers is memory and the tier behind it.
type tiers struct {
	memory    []*pool // by cell
	tier      *pool   // nil where there is none
	promotion int
	reads     []int // by block: hits in the tier only, since the block was written
	promoted  int
}

// look looks a block up and inserts it in memory, and in the tier, where it is in neither.
func (s *tiers) look(cell uint8, b uint32, before int) (found place, err error) {
	memory := s.memory[cell]
	switch {
	case memory.has(b):
		return inMemory, memory.use(b, before)
	case s.tier == nil:
		return nowhere, memory.use(b, before)
	case s.tier.has(b):
		found = inTier
		s.reads[b]++
	default:
		s.reads[b] = 0
	}
	if err := s.tier.use(b, before); err != nil {
		return found, fmt.Errorf("tier: %w", err)
	}
	if found == inTier {
		if s.reads[b] < s.promotion {
			return found, nil
		}
		s.promoted++
	}
	return found, memory.use(b, before)
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

func newPool(ctx context.Context, t *Trace, p evict.Policy, capacity int) (*pool, error) {
	if err := evict.SetCapacity(ctx, p, uint64(capacity)); err != nil {
		return nil, fmt.Errorf("set capacity: %w", err)
	}
	return &pool{
		ctx: ctx, policy: p, free: capacity,
		id:      make([]evict.ID, t.distinct),
		block:   []uint32{0},
		victims: make([]evict.Candidate, 0, 1),
	}, nil
}

func (s *pool) has(b uint32) bool { return s.id[b] != 0 }

// use records an access to a block, or inserts it where it is missing. before is the block before it
// in the request.
func (s *pool) use(b uint32, before int) error {
	ev := evict.Event{Op: evict.Access, ID: s.id[b]}
	if !s.has(b) {
		if s.free == 0 {
			if err := s.makeSpace(); err != nil {
				return err
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
		return fmt.Errorf("record: %w", err)
	}
	return nil
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

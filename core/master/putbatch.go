package master

import (
	"context"

	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/master/objects"
	"github.com/mooncake-go/mooncake/core/master/placement"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// maxRounds bounds how often one call evicts and asks the allocator again.
const maxRounds = 8

// put is one PutStart call under way.
type put struct {
	s      *Service
	client model.ClientID
	cfg    model.ReplicateConfig
	items  []model.PutItem
	now    lease.Instant
	out    []model.Result[[]model.Replica]
	buf    []model.Replica

	// todo are the items that still need room.
	todo []int
}

// admit refuses what cannot work and leaves the rest in todo.
func (p *put) admit() {
	largest := p.s.registry.View().Largest
	for i, it := range p.items {
		switch err := validKey(opPutStart, it.Key); {
		case err != nil:
			p.out[i].Err = err
		case it.Size == 0:
			p.out[i].Err = keyError(errs.InvalidParams, errs.ClassPermanent, opPutStart, it.Key, "its size is 0; an object has at least 1 byte")
		case largest > 0 && it.Size > largest:
			p.out[i].Err = errs.New(errs.InvalidParams, opPutStart, "%q has %d bytes, but the largest segment has %d; store it in parts, or mount a larger segment",
				short(it.Key), it.Size, largest)
		default:
			if out := p.s.table.CanPut(it.Key, p.now, p.s.cfg.PutDiscardTimeout); out != objects.Done {
				p.out[i].Err = outcomeError(out, opPutStart, it.Key)
				continue
			}
			p.todo = append(p.todo, i)
		}
	}
}

// run allocates, and evicts what is missing, until everything has room or nothing more
// can be had.
func (p *put) run(ctx context.Context) {
	var full *shortage
	for round := 0; len(p.todo) > 0; round++ {
		if err := p.allocate(ctx); err != nil {
			p.s.counters.AllocFailures.Add(len(p.todo))
			p.refuse(errs.WithHint(errs.Wrap(errs.NoAvailableHandle, opPutStart, err), "the allocator is not available; try again"))
			return
		}
		if len(p.todo) == 0 {
			return
		}
		if full == nil {
			full = &shortage{}
		}
		full.missing = p.missing()
		if round == maxRounds || p.s.registry.View().Capacity == 0 || ctx.Err() != nil {
			break
		}
		// Ask for exactly what is missing, so that no object goes without need. Only when
		// that fails twice is the free memory too scattered, and more has to go.
		if !p.s.makeRoom(ctx, full, full.missing<<max(round-1, 0)) {
			break
		}
	}
	if len(p.todo) > 0 {
		p.s.counters.AllocFailures.Add(len(p.todo))
		p.refuse(p.s.explain(ctx, full))
	}
}

// missing is how many bytes the items without room need.
func (p *put) missing() (n uint64) {
	for _, i := range p.todo {
		n += p.items[i].Size
	}
	return n
}

func (p *put) refuse(err error) {
	for _, i := range p.todo {
		p.out[i].Err = err
	}
	p.todo = nil
}

// takeBack revokes what got room. The caller has gone and will never hear where it lies, so
// that nobody writes there and the memory is free at once.
func (p *put) takeBack(ctx context.Context) {
	p.s.pool.Enter()
	defer p.s.pool.Leave()
	var freed []segments.Extent
	for i := range p.out {
		if replicas := p.out[i].Value; len(replicas) > 0 {
			freed, _ = p.s.table.Revoke(p.items[i].Key, replicas[0].ID, p.client, freed)
		}
	}
	p.s.pool.Free(ctx, freed)
}

// allocate makes one call to the allocator for all of todo, one more for copies that found
// no room where they were planned, and enters what got room. todo is left with the rest.
func (p *put) allocate(ctx context.Context) error {
	s := p.s
	s.pool.Enter()
	defer s.pool.Leave()
	view := s.registry.View()
	plan := placement.NewPlanner(view, s.strategy, placement.Wish{
		Copies: int(min(p.cfg.ReplicaNum, segments.MaxSegments)), Preferred: p.cfg.PreferredSegments,
	})
	if plan.Copies() == 0 {
		return nil
	}
	got, err := p.ask(ctx, view, plan)
	if err != nil {
		return err
	}
	var (
		rest   []int
		unused []segments.Extent
		given  []objects.Held
	)
	for n, i := range p.todo {
		extents := got[n]
		if len(extents) == 0 {
			rest = append(rest, i)
			continue
		}
		head := len(p.buf)
		object := objects.NewObject{
			Key: p.items[i].Key, Size: p.items[i].Size, Client: p.client, Extents: extents, Pinned: p.cfg.HardPin, DataType: p.cfg.DataType,
		}
		before := len(given)
		var out objects.Outcome
		p.buf, given, out = s.table.Put(object, p.now, s.cfg.PutDiscardTimeout, p.buf, given)
		if len(given) > before {
			s.counters.Discarded.Add(1)
		}
		switch out {
		case objects.Done:
			p.out[i].Value = p.buf[head:len(p.buf):len(p.buf)]
			if len(extents) < int(p.cfg.ReplicaNum) {
				s.counters.PartialAllocs.Add(1)
			}
		case objects.Missing:
			// Its segments went away between the two steps.
			unused = append(unused, extents...)
			rest = append(rest, i)
		default:
			unused = append(unused, extents...)
			p.out[i].Err = outcomeError(out, opPutStart, p.items[i].Key)
		}
	}
	p.todo = rest
	s.discard(given)
	s.pool.Free(ctx, unused)
	return nil
}

// ask returns the extents for each item of todo, empty where there is no room.
func (p *put) ask(ctx context.Context, v *segments.View, plan *placement.Planner) ([][]segments.Extent, error) {
	var (
		requests = make([]alloc.Request, 0, len(p.todo)*plan.Copies())
		owner    = make([]int, 0, cap(requests))
		backing  = make([]segments.Extent, len(p.todo)*plan.Copies())
		got      = make([][]segments.Extent, len(p.todo))
		lists    [][]alloc.SpaceID
	)
	for n, i := range p.todo {
		got[n] = backing[n*plan.Copies() : n*plan.Copies() : (n+1)*plan.Copies()]
		lists = plan.First(lists[:0])
		for _, candidates := range lists {
			requests = append(requests, alloc.Request{Size: p.items[i].Size, Candidates: candidates})
			owner = append(owner, n)
		}
	}
	if err := p.collect(ctx, v, requests, owner, got); err != nil || plan.Copies() == 1 {
		return got, err
	}
	requests, owner = requests[:0], owner[:0]
	for n, i := range p.todo {
		if len(got[n]) == 0 || len(got[n]) == plan.Copies() {
			continue
		}
		var taken []*segments.Segment
		for _, e := range got[n] {
			taken = append(taken, e.Seg)
		}
		if candidates := plan.Rest(taken); len(candidates) > 0 {
			requests = append(requests, alloc.Request{Size: p.items[i].Size, Candidates: candidates})
			owner = append(owner, n)
		}
	}
	if len(requests) > 0 {
		if err := p.collect(ctx, v, requests, owner, got); err != nil {
			p.s.log.Warn("further copies could not be placed", "error", err)
		}
	}
	return got, nil
}

// collect makes one call to the allocator and adds what it gives to got.
func (p *put) collect(ctx context.Context, v *segments.View, requests []alloc.Request, owner []int, got [][]segments.Extent) error {
	results, err := p.s.pool.Alloc(ctx, v, requests)
	if err != nil {
		return err
	}
	for j, r := range results {
		if r.Err == nil {
			got[owner[j]] = append(got[owner[j]], segments.Extent{Seg: v.Space(r.Extent.Space), Offset: r.Extent.Offset, Size: r.Extent.Size})
		}
	}
	return nil
}

// short cuts a key for a message.
func short(key string) string { return key[:min(len(key), 128)] }

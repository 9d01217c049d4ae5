package evicttest_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// benchBatch is the size of the batches of the check of throughput.
const benchBatch = 256

// faultState is the state that the faults of a simple policy need, except those of its ranking.
type faultState struct {
	started, givenUp, spoiled, touched bool

	stops, full, calls int
	last               evict.Candidate
	kept, away         map[evict.ID]bool
	prints             map[uint64]evict.ID
	parents            map[evict.ID]evict.ID
	batches            int
	late               []evict.Event
	shared             *atomic.Pointer[simple]
}

// clear forgets all objects.
func (p *simple) clear() {
	p.size, p.proposed, p.ranked = map[evict.ID]uint64{}, map[evict.ID]bool{}, nil
}

// SetCapacity implements evict.Sized.
func (p *simple) SetCapacity(_ context.Context, bytes uint64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fault == "a small capacity forgets" && bytes == 1 {
		p.clear()
	}
	return nil
}

func (p *simple) Start(context.Context, plugin.Host) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fault == "it does not start" {
		return errors.New("the frobnicator is missing")
	}
	p.started = true
	return nil
}

func (p *simple) Stop(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shared != nil {
		p.shared.CompareAndSwap(p, nil)
	}
	p.stops++
	switch {
	case p.fault == "stop before start is an error" && !p.started,
		p.fault == "the fourth stop is an error" && p.stops > 3,
		p.fault == "a stop that is given up is all" && p.givenUp:
		return errors.New("it does not run")
	case p.fault == "each start leaves a goroutine" && p.stops == 1:
		end := leakEnd
		leaked.Go(func() { <-end })
	}
	p.givenUp = p.givenUp || ctx.Err() != nil
	return nil
}

// misread is what the faults of events make of a batch.
func (p *simple) misread(events []evict.Event) []evict.Event {
	switch p.fault {
	case "one fingerprint is one object":
		return slices.DeleteFunc(slices.Clone(events), func(e evict.Event) bool {
			_, known := p.prints[e.Fingerprint]
			if e.Op == evict.Insert && e.Fingerprint != 0 {
				p.prints[e.Fingerprint] = e.ID
				return known
			}
			return false
		})
	case "a parent takes its children":
		for _, e := range events {
			if p.parents[e.ID] = e.Parent; e.Op == evict.Remove {
				for child, parent := range p.parents {
					if parent == e.ID {
						events = append(slices.Clone(events), evict.Event{Op: evict.Remove, ID: child})
					}
				}
			}
		}
	case "IDs have 32 bits":
		events = slices.Clone(events)
		for i := range events {
			events[i].ID &= 1<<32 - 1
		}
	case "the third batch is lost":
		if p.batches++; p.batches == 3 && len(events) > 1000 {
			return nil
		}
	case "the caller's events are kept":
		now := p.late
		p.late = events
		return now
	case "each call leaves a goroutine":
		end := leakEnd
		leaked.Go(func() { <-end })
	}
	return events
}

var waitEnd chan struct{} // of the one test whose fault it is

var (
	leaked  sync.WaitGroup
	leakEnd = make(chan struct{}) // of the one test whose fault it is
)

// endLeaks ends the goroutines of the one fault that leaves some.
func endLeaks() {
	close(leakEnd)
	leaked.Wait()
	leakEnd = make(chan struct{})
}

// kill plays the death of a policy's process and the start of the next one.
func kill(policy evict.Policy, replay func(context.Context, evict.Policy) error) error {
	p, _ := policy.(*simple)
	p.mu.Lock()
	p.clear()
	p.mu.Unlock()
	if p.fault == "replay is forgotten" {
		return nil
	}
	return replay(context.Background(), p)
}

// anyConfig takes the configuration of every plugin for its own.
type anyConfig struct{ evict.Factory }

func (f anyConfig) New(plugin.Config) (evict.Policy, error) {
	return f.Factory.New(new(plugin.NoConfig))
}

package alloctest_test

import (
	"context"
	"errors"
	"sync"

	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// benchBatch is the size of the batches of the check of throughput.
const benchBatch = 256

// faultState is the state that the faults of a simple allocator need, except those of its
// placement.
type faultState struct {
	started, givenUp, spoiled, freed bool

	stops, full, frees int
}

// lost tells which frees are.
func (a *simple) lost() bool {
	a.frees++
	return a.frees%300 == 0
}

func (a *simple) Start(context.Context, plugin.Host) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fault == "it does not start" {
		return errors.New("the frobnicator is missing")
	}
	a.started = true
	return nil
}

func (a *simple) Stop(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stops++
	switch {
	case a.fault == "stop before start is an error" && !a.started,
		a.fault == "the fourth stop is an error" && a.stops > 3,
		a.fault == "a stop that is given up is all" && a.givenUp:
		return errors.New("it does not run")
	case a.fault == "each start leaves a goroutine" && a.stops == 1:
		end := leakEnd
		leaked.Go(func() { <-end })
	}
	a.givenUp = a.givenUp || ctx.Err() != nil
	return nil
}

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

// kill plays the death of a allocator's process and the start of the next one.
func kill(allocator alloc.Allocator, replay func(context.Context, alloc.Allocator) error) error {
	p, _ := allocator.(*simple)
	p.mu.Lock()
	p.spaces = map[alloc.SpaceID]*simpleSpace{}
	p.mu.Unlock()
	if p.fault == "replay is forgotten" {
		return replay(context.Background(), forgetful{p})
	}
	return replay(context.Background(), p)
}

// forgetful reserves nothing.
type forgetful struct{ *simple }

func (forgetful) Reserve(context.Context, []alloc.Extent) ([]error, error) { return nil, nil }

// anyConfig takes the configuration of every plugin for its own.
type anyConfig struct{ alloc.Factory }

func (f anyConfig) New(plugin.Config) (alloc.Allocator, error) {
	return f.Factory.New(new(plugin.NoConfig))
}

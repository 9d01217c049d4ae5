package workloads

import (
	"context"
	"fmt"
	"time"

	"github.com/mooncake-go/mooncake/bench/compare"
	"github.com/mooncake-go/mooncake/bench/competitors"
	"github.com/mooncake-go/mooncake/bench/drivers"
)

// Goals of a master by itself.
const (
	readyGoal  = 60.0  // milliseconds
	memoryGoal = 40.0  // MB
	keyGoal    = 200.0 // bytes beyond the key
)

// settle is how long a master is idle before its memory is measured.
const settle = time.Second

// idle measures the start of a master, its memory without and with keys.
func idle(ctx context.Context, b *bench) error {
	contenders := []compare.Contender{
		{Name: competitors.OursName, Measure: b.starting((*competitors.Scope).OursMaster)},
		{Name: competitors.UpstreamName, Measure: b.starting((*competitors.Scope).UpstreamMaster)},
	}
	base := pair{ours: competitors.OursName, peer: competitors.UpstreamName}
	err := b.compare(ctx, "master start and idle memory", contenders,
		base.of("master start until it accepts calls", compare.Millis, "ready", 0),
		limit(readyGoal).of("master start until it accepts calls", compare.Millis, "ready", 1),
		base.of("master idle memory (resident)", compare.Megabytes, "memory", 0),
		limit(memoryGoal).of("master idle memory (resident)", compare.Megabytes, "memory", 1),
	)
	if err != nil {
		return err
	}
	counts := []int{1_000_000}
	if b.Full {
		counts = append(counts, 10_000_000)
	}
	for _, keys := range counts {
		if err := b.keyMemory(ctx, keys); err != nil {
			return err
		}
	}
	return nil
}

// limit is a pair with a value that was set as a goal in place of a peer.
func limit(value float64) pair {
	return pair{ours: competitors.OursName, fixed: compare.Fixed(fmt.Sprintf("a limit of %g", value), value)}
}

// starting starts a master, waits, and ends it.
func (b *bench) starting(start func(*competitors.Scope, context.Context, int) (*competitors.Master, error)) func(context.Context) (compare.Values, error) {
	return func(ctx context.Context) (compare.Values, error) {
		s := b.Scope.Scope()
		defer s.Close()
		began := time.Now()
		m, err := start(s, ctx, anyCPU)
		if err != nil {
			return nil, err
		}
		ready := time.Since(began)
		starting, err := m.CPUTime()
		if err != nil {
			return nil, err
		}
		memory, err := resident(ctx, m)
		if err != nil {
			return nil, err
		}
		all, err := m.CPUTime()
		return compare.Values{
			"ready": millis(ready), cpuMeasure("ready"): millis(starting),
			"memory": memory / 1e6, cpuMeasure("memory"): millis(all - starting),
		}, err
	}
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// resident is the memory of a master that has been idle for a while, in bytes.
func resident(ctx context.Context, m *competitors.Master) (float64, error) {
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(settle):
	}
	n, err := m.RSS()
	return float64(n), err
}

// keyMemory measures what keys of 46 bytes cost a master, each with one object of 16 bytes, put by
// the same script on both. It is done once: memory does not vary as time does.
func (b *bench) keyMemory(ctx context.Context, keys int) error {
	type (
		master = func(*competitors.Scope, context.Context, int) (*competitors.Master, error)
		client = func(*competitors.Scope, context.Context, *competitors.Master, int) (*competitors.Driver, error)
	)
	grow := func(name string, start master, join client) (compare.Figure, error) {
		b.Step(fmt.Sprintf("memory of %d keys, %s", keys, name))
		s := b.Scope.Scope()
		defer s.Close()
		m, err := start(s, ctx, anyCPU)
		if err != nil {
			return compare.Absent(name, err.Error()), ctx.Err()
		}
		each, err := grown(ctx, m, keys, func() (*competitors.Driver, error) { return join(s, ctx, m, keys*keySlot) })
		if err != nil {
			return compare.Absent(name, err.Error()), ctx.Err()
		}
		return compare.Fixed(name, each), nil
	}
	ours, err := grow(competitors.OursName, (*competitors.Scope).OursMaster, func(s *competitors.Scope, ctx context.Context, m *competitors.Master, segment int) (*competitors.Driver, error) {
		return s.OursPython(ctx, m, competitors.SharedMemory, anyCPU, segment)
	})
	if err != nil {
		return err
	}
	upstream, err := grow(competitors.UpstreamName, (*competitors.Scope).UpstreamMaster, func(s *competitors.Scope, ctx context.Context, m *competitors.Master, segment int) (*competitors.Driver, error) {
		return s.UpstreamPython(ctx, m, anyCPU, segment)
	})
	if err != nil {
		return err
	}
	work := fmt.Sprintf("master memory a key beyond the key (resident), %d keys of %d bytes", keys, drivers.KeyBytes)
	b.rows = append(b.rows,
		compare.NewRow(work, compare.BytesAKey, ours, upstream, 0),
		compare.NewRow(work, compare.BytesAKey, ours, limit(keyGoal).fixed, 1),
	)
	return nil
}

const (
	// keyObject is the size of the objects of keyMemory, and keySlot the space for each in the pool.
	keyObject = 16
	keySlot   = 128
	// fillStep is how many keys one job puts.
	fillStep = 250_000
)

// grown returns the bytes that a master grows by for a key, without the bytes of the key.
func grown(ctx context.Context, m *competitors.Master, keys int, join func() (*competitors.Driver, error)) (float64, error) {
	d, err := join()
	if err != nil {
		return 0, err
	}
	before, err := resident(ctx, m)
	if err != nil {
		return 0, err
	}
	for at := 0; at < keys; at += fillStep {
		if _, err := d.Do(ctx, drivers.Job{Do: drivers.Fill, Size: keyObject, From: at, Keys: min(fillStep, keys-at)}); err != nil {
			return 0, err
		}
	}
	after, err := resident(ctx, m)
	return (after-before)/float64(keys) - drivers.KeyBytes, err
}

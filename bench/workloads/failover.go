package workloads

import (
	"context"
	"fmt"
	"time"

	"github.com/mooncake-go/mooncake/bench/compare"
	"github.com/mooncake-go/mooncake/bench/competitors"
	"github.com/mooncake-go/mooncake/bench/drivers"
)

const (
	failoverObject = 64 << 10
	failoverPool   = 512 << 20
	// failoverLimit is how many seconds a pool may take until a put succeeds again.
	failoverLimit = 90
	// failoverSettle is how long the pool is idle between the puts and the fault.
	failoverSettle = 2 * time.Second
)

// failover kills the leader of two masters that the same etcd elects, while a client in Python has memory in the pool,
// and measures until a put and a get succeed again, and how many of the objects are there then.
func failover(ctx context.Context, b *bench) error {
	etcd, err := b.Etcd(ctx)
	if err != nil {
		return err
	}
	set := drivers.Sets(failoverObject)
	contenders := []compare.Contender{
		{Name: competitors.OursPython, Measure: b.failingOver(set, "ours", etcd, (*competitors.Scope).OursElected, func(ctx context.Context, s *competitors.Scope, m *competitors.Master) (*competitors.Driver, error) {
			return s.OursPython(ctx, m, competitors.TCP, anyCPU, failoverPool)
		})},
		{Name: competitors.UpstreamName, Measure: b.failingOver(set, "upstream", etcd, (*competitors.Scope).UpstreamElected, func(ctx context.Context, s *competitors.Scope, m *competitors.Master) (*competitors.Driver, error) {
			return s.UpstreamPython(ctx, m, anyCPU, failoverPool)
		})},
	}
	work := fmt.Sprintf("failover of two masters over etcd, leader kill -9, %d objects of 64 KiB", set[0].Objects())
	both := pair{ours: competitors.OursPython, peer: competitors.UpstreamName}
	return b.compare(ctx, "failover", contenders,
		both.of(work+": until a put and a get succeed", compare.Millis, "pause", 1),
		both.of(work+": objects kept", compare.Share, "kept", 0))
}

// failingOver starts a pool anew for each round, in a cluster of its own.
func (b *bench) failingOver(set []drivers.Set, name, etcd string, start func(*competitors.Scope, context.Context, string, string) (*competitors.Elected, error),
	join func(context.Context, *competitors.Scope, *competitors.Master) (*competitors.Driver, error),
) func(context.Context) (compare.Values, error) {
	round := 0
	return func(ctx context.Context) (compare.Values, error) {
		round++
		s := b.Scope.Scope()
		defer s.Close()
		e, err := start(s, ctx, etcd, fmt.Sprintf("%s-%d", name, round))
		if err != nil {
			return nil, err
		}
		d, err := join(ctx, s, &e.Master)
		if err != nil {
			return nil, err
		}
		if _, err := d.Do(ctx, drivers.Job{Do: drivers.Prepare, Sets: set}); err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(failoverSettle):
		}
		at, err := e.KillLeader()
		if err != nil {
			return nil, err
		}
		late := time.Since(at)
		a, err := d.Do(ctx, drivers.Job{Do: drivers.Recover, Size: failoverObject, Sets: set, Seconds: failoverLimit})
		if err != nil {
			return nil, err
		}
		pause := late.Seconds() + a.Phases["pause"].Seconds
		return compare.Values{"pause": 1000 * pause, "kept": float64(a.Phases["kept"].Calls) / float64(set[0].Objects())}, nil
	}
}

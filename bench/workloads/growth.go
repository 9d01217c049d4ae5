package workloads

import (
	"context"
	"fmt"
	"strconv"

	"github.com/mooncake-go/mooncake/bench/compare"
	"github.com/mooncake-go/mooncake/bench/drivers"
)

// growth measures how a master changes with clients, segments and keys. Each point stands beside
// the smallest one: a ratio of 1 says that it makes no difference.
func growth(ctx context.Context, b *bench) error {
	if err := b.growClients(ctx); err != nil {
		return err
	}
	if err := b.growSegments(ctx); err != nil {
		return err
	}
	return b.growKeys(ctx)
}

// growClients has more and more clients at once go through the life of objects, in batches. They are
// threads of one process.
func (b *bench) growClients(ctx context.Context) error {
	points := []int{1, 4, 16, 64}
	if b.Full {
		points = []int{1, 2, 4, 8, 16, 32, 64}
	}
	s := b.Scope.Scope()
	defer s.Close()
	m, err := s.OursMaster(ctx, anyCPU)
	if err != nil {
		return err
	}
	var contenders []compare.Contender
	for _, n := range points {
		d, err := s.OursMasterClient(ctx, m, anyCPU)
		if err != nil {
			return err
		}
		c := joining(growthName(n, "client"), "", d, nil)
		contenders = append(contenders, c.does(drivers.Job{Do: drivers.Calls, Count: 16, Threads: n, Repeat: max(10, 640/n)}, phases(16)))
	}
	return b.beside(ctx, "growth by clients, batch 16", contenders)
}

// growSegments spreads the same objects over more and more segments.
func (b *bench) growSegments(ctx context.Context) error {
	points := []int{1, 8, 32}
	if b.Full {
		points = []int{1, 2, 4, 8, 16, 32}
	}
	var contenders []compare.Contender
	s := b.Scope.Scope()
	defer s.Close()
	for _, n := range points {
		m, err := s.OursMaster(ctx, anyCPU)
		if err != nil {
			return err
		}
		d, err := s.OursMasterClient(ctx, m, anyCPU)
		if err != nil {
			return err
		}
		c := joining(growthName(n, "segment"), "", d, nil)
		contenders = append(contenders, c.does(drivers.Job{Do: drivers.Calls, Count: 16, Threads: 4, Repeat: 160, Segments: n}, phases(16)))
	}
	return b.beside(ctx, "growth by segments, batch 16, 4 threads", contenders)
}

// beside compares contenders with the first one, by call.
func (b *bench) beside(ctx context.Context, what string, contenders []compare.Contender) error {
	var pairs []pair
	for _, c := range contenders[1:] {
		for _, kind := range goCalls {
			p := pair{ours: c.Name, peer: contenders[0].Name}
			work := fmt.Sprintf("%s: %s, %s", what, kind.name, c.Name)
			pairs = append(pairs, p.of(work, compare.KeysPerSec, kind.phase+" keys", 0), p.of(work+", p99 of a call", compare.Micros, kind.phase+" p99", 0))
		}
	}
	return b.compare(ctx, what, contenders, pairs...)
}

func growthName(n int, what string) string {
	if n == 1 {
		return "ours, 1 " + what
	}
	return fmt.Sprintf("ours, %d %ss", n, what)
}

// growKeys loads masters that hold more and more keys while every put evicts.
func (b *bench) growKeys(ctx context.Context) error {
	points := []int{1_000, 100_000, 1_000_000}
	if b.Full {
		points = append(points, 10_000_000)
	}
	var contenders []compare.Contender
	for _, n := range points {
		contenders = append(contenders, compare.Contender{Name: fmt.Sprintf("ours, %d keys", n), Measure: func(ctx context.Context) (compare.Values, error) {
			var r struct {
				Keys  float64 `json:"keys_per_second"`
				Bytes float64 `json:"bytes_per_key"`
			}
			_, err := b.Mooncake(ctx, &r, "bench", "master", "--keys", strconv.Itoa(n), "--clients", "4", "--time", "2s")
			return compare.Values{"keys": r.Keys, "bytes": r.Bytes}, err
		}})
	}
	var pairs []pair
	for _, c := range contenders[1:] {
		p := pair{ours: c.Name, peer: contenders[0].Name}
		pairs = append(pairs, p.of("growth by keys, batch 128, 4 clients, every put evicts: "+c.Name, compare.KeysPerSec, "keys", 0))
		bytes := limit(keyGoal)
		bytes.ours = c.Name
		pairs = append(pairs, bytes.of("memory a key beyond the key (heap): "+c.Name, compare.BytesAKey, "bytes", 1))
	}
	return b.compare(ctx, "growth by keys", contenders, pairs...)
}

package workloads

import (
	"context"
	"fmt"

	"github.com/mooncake-go/mooncake/bench/compare"
	"github.com/mooncake-go/mooncake/bench/competitors"
	"github.com/mooncake-go/mooncake/bench/drivers"
)

// oursUpstreamClient names our master where upstream's client asks it.
const oursUpstreamClient = "ours, upstream's client"

// putAndRemove is the phase of a put and the removal of what it put.
const putAndRemove = "put and remove"

// upstreamMaster measures the same client, upstream's package unchanged, on our master and on
// upstream's.
func upstreamMaster(ctx context.Context, b *bench) error {
	b.Step("starting masters and clients")
	theirs := b.upstreamClient(ctx, competitors.UpstreamName, b.UpstreamMaster)
	ours := member{name: oursUpstreamClient, missing: theirs.missing} // Without the wheel there is no client.
	if ours.missing == "" {
		ours = b.upstreamClient(ctx, oursUpstreamClient, b.OursMaster)
	}
	for _, batch := range []int{1, 16, 128} {
		for _, threads := range []int{1, 4} {
			j := drivers.Job{Do: drivers.Calls, Count: batch, Threads: threads, Repeat: repeats[batch]}
			what := fmt.Sprintf("batch %d, %s", batch, threadsName(threads))
			values := withPutAndRemove(batch)
			err := b.compare(ctx, "upstream's client, "+what, []compare.Contender{ours.does(j, values), theirs.does(j, values)}, upstreamClientPairs(what)...)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// upstreamClient starts a master and a client of upstream's package with memory of its own.
func (b *bench) upstreamClient(ctx context.Context, name string, start func(context.Context, int) (*competitors.Master, error)) member {
	m, err := start(ctx, anyCPU)
	var d *competitors.Driver
	if err == nil {
		d, err = b.UpstreamPython(ctx, m, anyCPU, masterSegment)
	}
	return joining(name, "", d, err)
}

// withPutAndRemove adds the keys a second that are put and removed again.
func withPutAndRemove(count int) func(a drivers.Answer) (compare.Values, error) {
	return func(a drivers.Answer) (compare.Values, error) {
		put, remove := a.Phases["put"], a.Phases["remove"]
		both := drivers.Phase{Calls: min(put.Calls, remove.Calls), Seconds: put.Seconds + remove.Seconds, CPU: put.CPU + remove.CPU}
		v, err := phases(count)(a)
		v[putAndRemove+" keys"], v[cpuMeasure(putAndRemove)] = both.Per(count), cpuPerCall(both)
		return v, err
	}
}

func upstreamClientPairs(what string) []pair {
	both := pair{ours: oursUpstreamClient, peer: competitors.UpstreamName}
	var pairs []pair
	for _, c := range []call{{"exist", "exist"}, {"replica list", "replicas"}, {"put of 64 bytes and remove", putAndRemove}} {
		work := fmt.Sprintf("upstream's client, %s, %s", c.name, what)
		pairs = append(pairs, both.of(work, compare.KeysPerSec, c.phase+" keys", 0))
		if c.phase != putAndRemove {
			pairs = append(pairs, both.of(work+", p99 of a call", compare.Micros, c.phase+" p99", 0))
		}
	}
	return pairs
}

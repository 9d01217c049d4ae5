package workloads

import (
	"context"
	"fmt"
	"slices"

	"github.com/mooncake-go/mooncake/bench/compare"
	"github.com/mooncake-go/mooncake/bench/competitors"
	"github.com/mooncake-go/mooncake/bench/drivers"
)

// anyCPU leaves it to the kernel where a process runs; firstCPU is where both sides run when they
// are pinned.
const (
	anyCPU   = -1
	firstCPU = 0
)

// masterSegment is the memory of the clients in Python, whose puts are of 64 bytes.
const masterSegment = 512 << 20

// masterCalls measures calls to the master, with clients in Go, which make each call by itself,
// and with the same script in Python on both packages, where a put is both of its calls.
func masterCalls(ctx context.Context, b *bench) error {
	for _, cpu := range []int{anyCPU, firstCPU} {
		f, err := b.masterField(ctx, cpu)
		if err != nil {
			return err
		}
		for _, batch := range []int{1, 16, 128} {
			for _, threads := range []int{1, 4} {
				if cpu != anyCPU && (batch != 1 || threads != 1) {
					continue // Where a process runs matters where everything is waiting.
				}
				if err := b.compareCalls(ctx, f, batch, threads); err != nil {
					return err
				}
			}
		}
		f.scope.Close()
	}
	return nil
}

// masterField is two masters with their clients.
type masterField struct {
	scope                    *competitors.Scope
	cpu                      int
	inGo, inPython, upstream member
}

// masterField starts everything anew: its scope is closed by the caller, or with the work.
func (b *bench) masterField(ctx context.Context, cpu int) (masterField, error) {
	b.Step("starting masters and clients")
	s := b.Scope.Scope()
	f := masterField{scope: s, cpu: cpu}
	m, err := s.OursMaster(ctx, cpu)
	if err != nil {
		return f, err
	}
	g, err := s.OursMasterClient(ctx, m, cpu)
	if err != nil {
		return f, err
	}
	f.inGo = joining(competitors.OursName, "", g, nil)
	// A master of its own: the one above has segments without memory.
	if m, err = s.OursMaster(ctx, cpu); err != nil {
		return f, err
	}
	p, err := s.OursPython(ctx, m, competitors.SharedMemory, cpu, masterSegment)
	f.inPython = joining(competitors.OursPython, "", p, err)

	var u *competitors.Driver
	if m, err = s.UpstreamMaster(ctx, cpu); err == nil {
		u, err = s.UpstreamPython(ctx, m, cpu, masterSegment)
	}
	f.upstream = joining(competitors.UpstreamName, "", u, err)
	return f, nil
}

// phases are the measures of an answer: keys a second, and the times of a call in microseconds.
func phases(count int) func(a drivers.Answer) (compare.Values, error) {
	return func(a drivers.Answer) (compare.Values, error) {
		v := compare.Values{}
		for name, p := range a.Phases {
			v[name+" keys"], v[name+" p50"], v[name+" p99"] = p.Per(count), p.P50, p.P99
			v[cpuMeasure(name)] = cpuPerCall(p)
		}
		return v, nil
	}
}

// repeats is how many calls a thread makes in a round, by batch.
var repeats = map[int]int{1: 2000, 16: 1000, 128: 200}

func (b *bench) compareCalls(ctx context.Context, f masterField, batch, threads int) error {
	j := drivers.Job{Do: drivers.Calls, Count: batch, Threads: threads, Repeat: repeats[batch]}
	what := fmt.Sprintf("batch %d, %s", batch, threadsName(threads))
	if f.cpu != anyCPU {
		what += ", both sides on one core"
	}
	var pairs []pair
	for _, c := range pythonCalls {
		work := fmt.Sprintf("master %s, %s, Python", c.name, what)
		both := pair{ours: competitors.OursPython, peer: competitors.UpstreamName}
		pairs = append(pairs, both.of(work, compare.KeysPerSec, c.phase+" keys", callGoal(batch, threads)))
		pairs = append(pairs, both.of(work+", p50 of a call", compare.Micros, c.phase+" p50", 0))
		pairs = append(pairs, both.of(work+", p99 of a call", compare.Micros, c.phase+" p99", p99Goal(batch, threads)))
	}
	for _, c := range goCalls {
		pairs = append(pairs, goPairs(c, fmt.Sprintf("master %s, %s, Go", c.name, what), batch, threads, f.cpu != anyCPU)...)
	}
	values := phases(batch)
	return b.compare(ctx, "master "+what, []compare.Contender{f.inGo.does(j, values), f.upstream.does(j, values), f.inPython.does(j, values)}, pairs...)
}

// goPairs are the rows of a call of the client in Go: beside upstream's client in Python where its
// package has that call by itself, and beside what was measured elsewhere with a client in C++.
func goPairs(c call, work string, batch, threads int, pinned bool) []pair {
	beside := pair{ours: competitors.OursName, peer: competitors.UpstreamName}
	if !slices.Contains(pythonCalls, c) {
		beside.fixed = compare.Absent(competitors.UpstreamName, "its package has no such call by itself")
	}
	pairs := []pair{
		beside.of(work, compare.KeysPerSec, c.phase+" keys", 0),
		beside.of(work+", p50 of a call", compare.Micros, c.phase+" p50", 0),
		beside.of(work+", p99 of a call", compare.Micros, c.phase+" p99", 0),
	}
	if known := quotedCall(c.phase, batch, threads, pinned); known > 0 {
		quoted := pair{ours: competitors.OursName, fixed: compare.Fixed(competitors.UpstreamQuoted, known)}
		pairs = append(pairs, quoted.of(work, compare.KeysPerSec, c.phase+" keys", callGoal(batch, threads)))
	}
	return pairs
}

// of is the pair with one measure.
func (p pair) of(work string, unit compare.Unit, measure string, goal float64) pair {
	p.work, p.unit, p.measure, p.goal = work, unit, measure, goal
	return p
}

// call is a kind of call by its names in results and in answers.
type call struct{ name, phase string }

var (
	goCalls = []call{
		{"PutStart", "put_start"}, {"PutEnd", "put_end"}, {"Exist", "exist"}, {"GetReplicaList", "replicas"}, {"Remove", "remove"},
	}
	pythonCalls = []call{
		{"put of 64 bytes (PutStart, PutEnd and a copy)", "put"}, {"Exist", "exist"}, {"GetReplicaList", "replicas"}, {"Remove", "remove"},
	}
)

// callGoal is how far ahead of upstream a call should be in keys a second, 0 for no goal.
func callGoal(batch, threads int) float64 {
	switch {
	case batch == 128 && threads == 4:
		return 1.5
	case batch == 1 && threads == 1:
		return 1.2
	}
	return 0
}

// p99Goal says that single calls should have no longer tail than upstream's.
func p99Goal(batch, threads int) float64 {
	if batch == 1 && threads == 1 {
		return 1
	}
	return 0
}

// quotedKeys are keys a second of upstream's master with a client in C++, batches of 128 by 4
// threads.
var quotedKeys = map[string]float64{
	"put_start": 0.33e6, "put_end": 0.68e6, "exist": 0.77e6, "replicas": 0.79e6, "remove": 0.38e6,
}

// quotedCall is how many keys a second are known of a call of upstream's master by itself, 0 for
// nothing.
func quotedCall(phase string, batch, threads int, pinned bool) float64 {
	switch {
	case batch == 128 && threads == 4:
		return quotedKeys[phase]
	case batch == 1 && threads == 1 && pinned:
		return 30_000
	case batch == 1 && threads == 1:
		return 10_000
	}
	return 0
}

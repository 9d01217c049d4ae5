// Package workloads has the workloads, one in each file: each starts this project and its
// competitors, gives them the same jobs in turn, and compares.
package workloads

import (
	"context"
	"fmt"

	"github.com/mooncake-go/mooncake/bench/compare"
	"github.com/mooncake-go/mooncake/bench/competitors"
)

// Options say how carefully to measure.
type Options struct {
	// Rounds of each contender that count; one more comes before them.
	Rounds int
	// Seconds is how long a put or get lasts in a round.
	Seconds float64
	// Full adds the points that take long.
	Full bool
	// Trace is a file of requests that the demo plays, empty for conversations that it makes up.
	Trace string
	// Step is told what is measured next.
	Step func(text string)
}

// Workload is one kind of measurement.
type Workload struct {
	// Name is how it is chosen, Summary what it does.
	Name, Summary string
	run           func(ctx context.Context, b *bench) error
}

// All returns the workloads in the order in which they run.
func All() []Workload {
	return []Workload{
		{"tcp", "puts and gets of a client over TCP", tcp},
		{"master", "calls to the master", masterCalls},
		{"upstream-master", "calls of upstream's own client to our master and to upstream's", upstreamMaster},
		{"idle", "start, memory and memory a key of the master", idle},
		{"samehost", "puts and gets through shared memory and an own segment, beside memcpy", sameHost},
		{"alloc", "allocators: time of a call, utilisation", allocators},
		{"demo", "the main job on conversations, pools of three sizes", demo},
		{"failover", "the leader of two masters over etcd dies: pause, objects kept", failover},
		{"disk", "more than memory holds: saved to a disk, read from it, beside fio", disk},
		{"growth", "how a master changes with clients, segments and keys", growth},
	}
}

// Run runs one workload and returns its rows, also those before an error.
func (w Workload) Run(ctx context.Context, env *competitors.Env, o Options) ([]compare.Row, error) {
	b := &bench{Options: o, env: env, Scope: env.Scope()}
	defer b.Close()
	if err := w.run(ctx, b); err != nil {
		return b.rows, fmt.Errorf("%s: %w", w.Name, err)
	}
	return b.rows, nil
}

// bench is one run of one workload. Its scope ends with the run.
type bench struct {
	Options
	*competitors.Scope
	env  *competitors.Env
	rows []compare.Row
}

// compare measures contenders in turn and adds a row for each pair. The error is only that of a
// context that ended.
func (b *bench) compare(ctx context.Context, what string, contenders []compare.Contender, pairs ...pair) error {
	b.Step(what)
	out, err := compare.Alternate(ctx, b.Rounds, contenders...)
	if err != nil {
		return err
	}
	find := func(name, measure string) compare.Figure {
		for _, o := range out {
			if o.Name == name {
				return o.Figure(measure)
			}
		}
		return compare.Absent(name, "it takes no part")
	}
	for _, p := range pairs {
		peer := p.fixed
		if peer.Name == "" {
			peer = find(p.peer, p.measure)
		}
		row := compare.NewRow(p.work, p.unit, find(p.ours, p.measure), peer, p.goal)
		b.rows = append(b.rows, p.withCPU(row, find))
	}
	return nil
}

// measured returns what this project reached in a row of this run.
func (b *bench) measured(work string) (value float64, ok bool) {
	for _, r := range b.rows {
		if r.Work == work && r.Ours != nil {
			return *r.Ours, true
		}
	}
	return 0, false
}

// pair is a row to be: two contenders, or one and a figure that is known already.
type pair struct {
	work       string
	unit       compare.Unit
	measure    string
	ours, peer string
	fixed      compare.Figure
	goal       float64
}

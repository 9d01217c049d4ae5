package workloads

import (
	"context"
	"fmt"

	"github.com/mooncake-go/mooncake/bench/compare"
	"github.com/mooncake-go/mooncake/bench/competitors"
	"github.com/mooncake-go/mooncake/bench/drivers"
)

// doer does jobs.
type doer interface {
	Do(ctx context.Context, j drivers.Job) (drivers.Answer, error)
}

// member is a contender of several comparisons: a doer of jobs, or the reason why there is none.
type member struct {
	name    string
	missing string
	doer    doer
	// way is how the bytes must have travelled, empty where it does not matter.
	way competitors.Way
}

// joining makes a member of what may have failed to start.
func joining[D doer](name string, way competitors.Way, d D, err error) member {
	if err != nil {
		return member{name: name, missing: err.Error()}
	}
	return member{name: name, doer: d, way: way}
}

// prepare has sets put that gets read, once the pool was touched. It returns the member, missing
// where that failed.
func (m member) prepare(ctx context.Context, j drivers.Job) member {
	if m.missing != "" {
		return m
	}
	j.Do = drivers.Prepare
	if _, err := m.doer.Do(ctx, j); err != nil {
		m.missing = err.Error()
	}
	return m
}

// does is a contender that does one job, whose values are made of the answer.
func (m member) does(j drivers.Job, values func(a drivers.Answer) (compare.Values, error)) compare.Contender {
	if m.missing != "" {
		return compare.Unavailable(m.name, m.missing)
	}
	return compare.Contender{Name: m.name, Measure: func(ctx context.Context) (compare.Values, error) {
		a, err := m.doer.Do(ctx, j)
		if err != nil {
			return nil, err
		}
		return values(a)
	}}
}

// rate is the measure of moves, in GB/s.
const rate = "rate"

// moves is a contender that puts or gets.
func (m member) moves(j drivers.Job) compare.Contender {
	var before uint64
	c := m.does(j, func(a drivers.Answer) (compare.Values, error) {
		after, err := competitors.LoopbackBytes()
		if err != nil {
			return nil, err
		}
		p, ok := a.Phases[j.Do]
		if !ok || p.Calls == 0 {
			return nil, fmt.Errorf("%s did not %s anything", m.name, j.Do)
		}
		if err := travelled(m.way, uint64(p.Calls)*uint64(j.Size*j.Count), after-before, j.Size); err != nil {
			return nil, err
		}
		return compare.Values{rate: p.Per(j.Size*j.Count) / 1e9, cpuMeasure(rate): cpuPerGB(p, j.Size*j.Count)}, nil
	})
	measure := c.Measure
	c.Measure = func(ctx context.Context) (v compare.Values, err error) {
		if before, err = competitors.LoopbackBytes(); err != nil {
			return nil, err
		}
		return measure(ctx)
	}
	return c
}

// travelled says whether so many moved bytes, in objects of a size, can have gone the way that
// they should, when the loopback interface carried so many in that time.
func travelled(way competitors.Way, moved, carried uint64, size int) error {
	switch {
	case way == competitors.TCP && carried < moved:
		return fmt.Errorf("%d bytes were moved, but the loopback interface carried %d: they did not go over TCP", moved, carried)
	// Small objects cost as many bytes of calls to the master; and others use the interface.
	case way == competitors.SharedMemory && size >= 64<<10 && carried > moved/2:
		return fmt.Errorf("%d bytes were moved, and the loopback interface carried %d: they went over TCP, or other programs keep it busy", moved, carried)
	}
	return nil
}

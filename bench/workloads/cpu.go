package workloads

import (
	"strings"

	"github.com/mooncake-go/mooncake/bench/compare"
	"github.com/mooncake-go/mooncake/bench/competitors"
	"github.com/mooncake-go/mooncake/bench/drivers"
)

// cpuMeasure is the processor time that belongs to a measure. The rate and the quantiles of a kind of call share one.
func cpuMeasure(measure string) string {
	for _, suffix := range []string{" keys", " p50", " p99"} {
		measure = strings.TrimSuffix(measure, suffix)
	}
	return measure + " cpu"
}

// cpuUnit is how the processor time of a work is counted, by the unit of its other figures.
func cpuUnit(u compare.Unit) compare.Unit {
	switch u {
	case compare.GBps:
		return compare.CPUPerGB
	case compare.Millis, compare.Megabytes:
		return compare.CPUMillis
	}
	return compare.CPUPerCall
}

// cpuGoal asks for no more processor time than upstream, and for nearly as little as iperf3 where the rate is held against it.
// Quantiles have no goal, as the rate of the same calls has one.
func (p pair) cpuGoal() float64 {
	switch {
	case p.peer == competitors.IperfName && p.goal > 0:
		return 0.9
	case p.peer == competitors.UpstreamName && p.fixed.Name == "" && (p.unit == compare.GBps || p.unit == compare.KeysPerSec):
		return 1
	}
	return 0
}

// withCPU adds the processor time of both sides to a row, where the work has one.
func (p pair) withCPU(row compare.Row, find func(name, measure string) compare.Figure) compare.Row {
	measure, goal := cpuMeasure(p.measure), p.cpuGoal()
	ours, peer := find(p.ours, measure), compare.Absent(p.fixed.Name, "it is not measured here")
	if p.fixed.Name == "" {
		peer = find(p.peer, measure)
	}
	if ours.Missing != "" && peer.Missing != "" && goal == 0 {
		return row
	}
	return row.WithCPU(cpuUnit(p.unit), ours, peer, goal)
}

// cpuPerGB is the processor seconds that a phase took for a GB, when a call moves so many bytes.
func cpuPerGB(p drivers.Phase, bytes int) float64 { return p.CPUPer(bytes) * 1e9 }

// cpuPerCall is the processor microseconds of a call.
func cpuPerCall(p drivers.Phase) float64 { return p.CPUPer(1) * 1e6 }

// Package report makes one report out of the results of all workers of a demo, as JSON for
// scripts and as a table for people.
package report

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/measure"
	"github.com/mooncake-go/mooncake/core/bench/worker"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Facts is what the workers do not know.
type Facts struct {
	// Evictions is how many objects the master evicted during the run.
	Evictions uint64
	PageSize  uint64
	// PoolBytes is the memory that the stores contribute; WorkingSetBytes that of the
	// load's distinct blocks.
	PoolBytes, WorkingSetBytes uint64
	// Elapsed is the time from the start of the first worker to the end of the last.
	Elapsed time.Duration
	// ChecksumGBps is the measured speed of the checksum on one core, 0 if not measured.
	ChecksumGBps float64
	// Plugins are those of the master and of the stores.
	Plugins []Plugin
	// Tiered says that the stores have storage tiers, which did not have EvictedUnsaved objects when memory lost them.
	Tiered         bool
	EvictedUnsaved uint64
}

// Report is the outcome of a run. The JSON keys are relied on by scripts: they are added
// to and never renamed. GB is 10^9 bytes; latencies are microseconds.
type Report struct {
	PagesVerified uint64 `json:"pages_verified"`
	PagesWrong    uint64 `json:"pages_wrong"`
	// HitRatioBlocks is hits by blocks looked up.
	HitRatioBlocks float64 `json:"hit_ratio_blocks"`
	BlocksLooked   uint64  `json:"blocks_looked_up"`
	BlocksHit      uint64  `json:"blocks_hit"`
	// PutGBps and GetGBps are the speed of all workers together while they put and get:
	// bytes moved by the mean time that a worker spent inside the calls. Failed calls add
	// time and no bytes; making and comparing content is not part of it.
	PutGBps     float64 `json:"put_gbps"`
	GetGBps     float64 `json:"get_gbps"`
	LookupP50us float64 `json:"lookup_p50_us"` // the whole prefix of a request
	LookupP99us float64 `json:"lookup_p99_us"`
	GetP50us    float64 `json:"get_p50_us"` // one batch of pages
	GetP99us    float64 `json:"get_p99_us"`
	PutP50us    float64 `json:"put_p50_us"` // one batch of pages
	PutP99us    float64 `json:"put_p99_us"`
	Evictions   uint64  `json:"evictions"`

	BytesPut        uint64  `json:"bytes_put"`
	BytesGet        uint64  `json:"bytes_get"`
	Requests        uint64  `json:"requests"`
	Workers         int     `json:"workers"`
	PageSize        uint64  `json:"page_size"`
	PoolBytes       uint64  `json:"pool_bytes"`
	WorkingSetBytes uint64  `json:"working_set_bytes"`
	Seconds         float64 `json:"seconds"`

	PutsOK        uint64 `json:"puts_ok"`
	PutsExisting  uint64 `json:"puts_existing"`
	PutsFailed    uint64 `json:"puts_failed"`
	GetsFailed    uint64 `json:"gets_failed"`
	LookupsFailed uint64 `json:"lookups_failed"`
	// Failures counts failures of all kinds by the name of their code.
	Failures map[string]uint64 `json:"failures,omitempty"`

	// ContentSeconds is the workers' own time for making and comparing pages, summed.
	ContentSeconds float64 `json:"content_seconds"`
	// ChecksumGBps is the speed of the checksum on one core; ChecksumShare is the part of
	// the time in puts and gets that it accounts for at that speed. 0 if not measured.
	ChecksumGBps  float64 `json:"checksum_gbps,omitempty"`
	ChecksumShare float64 `json:"checksum_share,omitempty"`
	// Plugins are those that the processes had in use in the end, each with its process.
	Plugins []Plugin `json:"plugins,omitempty"`
	// Wrong describes the first wrong pages.
	Wrong []string `json:"wrong,omitempty"`
	// Tiers is nil where the pool has no storage tiers.
	*Tiers
}

// Tiers are the figures of a pool with storage tiers.
type Tiers struct {
	// MemoryHits and TierHits are the pages that gets returned from memory and from storage tiers.
	MemoryHits uint64 `json:"memory_hits"`
	TierHits   uint64 `json:"tier_hits"`
	// EvictedUnsaved is how many pages left memory before a storage tier had them.
	EvictedUnsaved uint64 `json:"evicted_unsaved"`
}

// Check returns an error if the run does not show what a demo is to show: pages were read, none was wrong, and some
// came from a storage tier if the pool has any.
func (r Report) Check() error {
	switch {
	case r.PagesWrong > 0 || r.PagesVerified == 0:
		return errs.New(errs.Internal, "demo", "%d pages were verified and %d were wrong", r.PagesVerified, r.PagesWrong)
	case r.Tiers != nil && r.TierHits == 0:
		return errs.WithHint(errs.New(errs.Internal, "demo", "all %d pages came from memory, none from a storage tier", r.MemoryHits), "use more requests, or a smaller pool")
	}
	return nil
}

// Build merges the results of workers, in any order. Results decoded from events and
// those returned by a Worker are valid.
func Build(results []worker.Result, facts Facts) Report {
	r := Report{
		Evictions: facts.Evictions, PageSize: facts.PageSize, PoolBytes: facts.PoolBytes,
		WorkingSetBytes: facts.WorkingSetBytes, Seconds: facts.Elapsed.Seconds(),
		Workers: len(results), ChecksumGBps: facts.ChecksumGBps, Failures: map[string]uint64{},
		Plugins: slices.Clone(facts.Plugins),
	}
	var sum worker.Progress
	var lookup, get, put ops
	var tierHits uint64
	for _, w := range slices.SortedFunc(slices.Values(results), func(a, b worker.Result) int { return cmp.Compare(a.Worker, b.Worker) }) {
		sum.Add(w.Progress)
		r.PutsOK += w.PutsOK
		r.PutsExisting += w.PutsExisting
		r.PutsFailed += put.add(w.Put, r.Failures)
		r.GetsFailed += get.add(w.Get, r.Failures)
		r.LookupsFailed += lookup.add(w.Lookup, r.Failures)
		tierHits += w.TierHits
		r.ContentSeconds += (w.Filling + w.Verifying).Seconds()
		r.Wrong = append(r.Wrong, w.Wrong...)
		for _, in := range w.Plugins {
			r.Plugins = append(r.Plugins, Plugin{Where: fmt.Sprintf("worker-%d", w.Worker+1), Instance: in})
		}
	}
	r.Requests, r.BlocksLooked, r.BlocksHit = sum.Requests, sum.BlocksLooked, sum.BlocksHit
	r.PagesVerified, r.PagesWrong, r.BytesPut, r.BytesGet = sum.PagesVerified, sum.PagesWrong, sum.BytesPut, sum.BytesGet
	if facts.Tiered {
		r.Tiers = &Tiers{MemoryHits: r.PagesVerified + r.PagesWrong - tierHits, TierHits: tierHits, EvictedUnsaved: facts.EvictedUnsaved}
	}
	r.Wrong = r.Wrong[:min(len(r.Wrong), maxWrong)]
	if r.BlocksLooked > 0 {
		r.HitRatioBlocks = float64(r.BlocksHit) / float64(r.BlocksLooked)
	}
	r.PutGBps = put.speed(r.BytesPut, r.Workers)
	r.GetGBps = get.speed(r.BytesGet, r.Workers)
	r.LookupP50us, r.LookupP99us = lookup.quantiles()
	r.GetP50us, r.GetP99us = get.quantiles()
	r.PutP50us, r.PutP99us = put.quantiles()
	if busy := (put.busy + get.busy).Seconds(); busy > 0 && facts.ChecksumGBps > 0 {
		r.ChecksumShare = float64(r.BytesPut+r.BytesGet) / 1e9 / facts.ChecksumGBps / busy
	}
	return r
}

// maxWrong bounds Report.Wrong.
const maxWrong = 16

// ops has one kind of call of all workers.
type ops struct {
	busy time.Duration
	hist *measure.Histogram
}

// add returns the number of failures, which it also adds to failures by code.
func (o *ops) add(op worker.Op, failures map[string]uint64) uint64 {
	o.busy += op.Busy
	if o.hist == nil {
		o.hist = measure.NewHistogram()
	}
	o.hist.Merge(op.Latency)
	for code, n := range op.Failed {
		failures[code] += n
	}
	return op.Failures()
}

func (o *ops) speed(bytes uint64, workers int) float64 {
	if o.busy <= 0 {
		return 0
	}
	return float64(bytes) / 1e9 / o.busy.Seconds() * float64(workers)
}

func (o *ops) quantiles() (p50, p99 float64) {
	if o.hist == nil {
		return 0, 0
	}
	us := func(q float64) float64 { return measure.Micros(o.hist.Quantile(q)) }
	return us(0.5), us(0.99)
}

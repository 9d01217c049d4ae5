package worker

import (
	"time"

	"github.com/mooncake-go/mooncake/core/bench/measure"
	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// maxWrongDetails bounds Result.Wrong.
const maxWrongDetails = 16

// Progress is how far a worker is.
type Progress struct {
	Requests      uint64 `json:"requests"`
	Total         uint64 `json:"total"` // 0 when not known
	BlocksLooked  uint64 `json:"blocks_looked_up"`
	BlocksHit     uint64 `json:"blocks_hit"`
	PagesVerified uint64 `json:"pages_verified"`
	PagesWrong    uint64 `json:"pages_wrong"`
	BytesPut      uint64 `json:"bytes_put"`
	BytesGet      uint64 `json:"bytes_get"`
}

// Add adds the counts of another worker.
func (p *Progress) Add(o Progress) {
	p.Requests += o.Requests
	p.Total += o.Total
	p.BlocksLooked += o.BlocksLooked
	p.BlocksHit += o.BlocksHit
	p.PagesVerified += o.PagesVerified
	p.PagesWrong += o.PagesWrong
	p.BytesPut += o.BytesPut
	p.BytesGet += o.BytesGet
}

// Op is what was measured of one kind of call.
type Op struct {
	// Failed counts failures by code name: of keys for reads and puts, of calls for
	// lookups.
	Failed map[string]uint64 `json:"failed,omitempty"`
	// Busy is the time spent inside the calls, failed ones included.
	Busy time.Duration `json:"busy_ns"`
	// Latency is that of each call: a whole lookup, one batch of reads or puts.
	Latency *measure.Histogram `json:"latency"`
}

// Failures is the sum over all codes.
func (o Op) Failures() (n uint64) {
	for _, c := range o.Failed {
		n += c
	}
	return n
}

func (o *Op) fail(err error) { o.Failed[errs.CodeOf(err).String()]++ }

func (o *Op) took(d time.Duration) {
	o.Busy += d
	o.Latency.Record(d)
}

func newOp() Op { return Op{Failed: map[string]uint64{}, Latency: measure.NewHistogram()} }

// Result is what a worker did.
type Result struct {
	Worker int `json:"worker"`
	// Progress holds the counts. A page counts as verified when all its bytes were
	// compared and right; a hit is a page of the cached prefix that was read and right.
	Progress
	Lookup Op `json:"lookup"`
	Get    Op `json:"get"`
	Put    Op `json:"put"`
	// PutsOK counts pages stored, PutsExisting those that were there already.
	PutsOK       uint64 `json:"puts_ok"`
	PutsExisting uint64 `json:"puts_existing"`
	// TierHits counts the pages that were read from storage tiers, where the pool has some.
	TierHits uint64 `json:"tier_hits,omitempty"`
	// Filling and Verifying are the worker's own time for making and comparing content.
	Filling   time.Duration `json:"filling_ns"`
	Verifying time.Duration `json:"verifying_ns"`
	// Wall is the time from the first request to the end of the last.
	Wall time.Duration `json:"wall_ns"`
	// Wrong describes the first wrong pages.
	Wrong []string `json:"wrong,omitempty"`
	// Plugins are those that the worker's pool has in use in the end, where it tells.
	Plugins []pluginhost.Instance `json:"plugins,omitempty"`
}

func newResult(cfg Config) Result {
	return Result{
		Worker: cfg.Worker, Progress: Progress{Total: uint64(cfg.Total)},
		Lookup: newOp(), Get: newOp(), Put: newOp(),
	}
}

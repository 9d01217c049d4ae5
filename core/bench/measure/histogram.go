// Package measure has what all measurements share: histograms of latencies that several processes
// can fill and one can merge, medians, and threads that work at once.
package measure

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Max is the longest latency that a histogram tells apart; a longer one counts as Max.
const Max = time.Hour

// digits is the number of significant decimal digits.
const digits = 2

// Histogram counts latencies from 1 ns to 1 h, and tells them apart to better than 1 %, in a fixed
// 40 KiB of memory. Make one with NewHistogram or by decoding JSON. It is for one goroutine.
type Histogram struct{ hdr *hdrhistogram.Histogram }

// NewHistogram makes an empty Histogram.
func NewHistogram() *Histogram {
	return &Histogram{hdr: hdrhistogram.New(1, int64(Max), digits)}
}

// Record counts one latency; below 1 ns counts as 0.
func (h *Histogram) Record(d time.Duration) {
	// The range is clamped, so that the only refusals of the library cannot happen.
	_ = h.hdr.RecordValue(int64(min(max(d, 0), Max)))
}

// Merge adds the counts of other, which may be nil.
func (h *Histogram) Merge(other *Histogram) {
	if other != nil {
		h.hdr.Merge(other.hdr)
	}
}

// Count returns how many latencies were recorded.
func (h *Histogram) Count() uint64 { return uint64(h.hdr.TotalCount()) }

// Quantile returns the latency below or at which the share q (0 to 1) of all lies, 0 for
// an empty histogram.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.hdr.TotalCount() == 0 {
		return 0
	}
	return time.Duration(h.hdr.ValueAtPercentile(100 * min(max(q, 0), 1)))
}

// wire is the JSON form: pairs of a latency in nanoseconds and its count, ascending.
type wire struct {
	Counts [][2]int64 `json:"ns"`
}

// MarshalJSON implements json.Marshaler. The size is about 20 bytes for each latency that
// is told apart from the others, at most 100 KiB.
func (h *Histogram) MarshalJSON() ([]byte, error) {
	w := wire{Counts: [][2]int64{}}
	for _, bar := range h.hdr.Distribution() {
		if bar.Count > 0 {
			w.Counts = append(w.Counts, [2]int64{bar.From, bar.Count})
		}
	}
	return json.Marshal(w)
}

// UnmarshalJSON implements json.Unmarshaler. InvalidParams for a latency or a count that
// no histogram can hold.
func (h *Histogram) UnmarshalJSON(text []byte) error {
	var w wire
	if err := json.Unmarshal(text, &w); err != nil {
		return fmt.Errorf("latency histogram: %w", err)
	}
	fresh := NewHistogram()
	for _, c := range w.Counts {
		if c[0] < 0 || c[0] > int64(Max) || c[1] < 0 {
			return errs.New(errs.InvalidParams, "latency histogram", "%d times %d ns is out of range", c[1], c[0])
		}
		if err := fresh.hdr.RecordValues(c[0], c[1]); err != nil {
			return errs.Wrap(errs.InvalidParams, "latency histogram", err)
		}
	}
	h.hdr = fresh.hdr
	return nil
}

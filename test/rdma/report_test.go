package rdma

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// rep is the outcome of the speed step.
type rep struct {
	// Processors are those of the VM, which are emulated.
	Processors int `json:"processors"`
	// Rounds is the most of each figure; on a slow machine there are fewer.
	Rounds int   `json:"rounds"`
	Rows   []row `json:"rows"`
	// Missing says which rows there are not, and why.
	Missing []string `json:"missing,omitempty"`
}

// row compares one figure.
type row struct {
	What string `json:"what"`
	// Size is that of one request in bytes.
	Size    int    `json:"size"`
	Against string `json:"against"`
	Unit    string `json:"unit"`
	// Ours and Theirs are the figures of each round.
	Ours   []float64 `json:"ours"`
	Theirs []float64 `json:"theirs"`
	// OursMedian, TheirsMedian and Ratio, ours over theirs, are set by add.
	OursMedian   float64 `json:"ours_median"`
	TheirsMedian float64 `json:"theirs_median"`
	Ratio        float64 `json:"ratio"`
	// Target is the least ratio of a bandwidth, the largest of a latency.
	Target float64 `json:"target"`
	Met    bool    `json:"met"`
}

func newReport() *rep { return &rep{Processors: runtime.NumCPU(), Rounds: rounds} }

func (r *rep) add(w row) {
	w.OursMedian, w.TheirsMedian = median(w.Ours), median(w.Theirs)
	w.Ratio = w.OursMedian / w.TheirsMedian
	w.Met = w.Ratio >= w.Target
	if w.Unit == "us" {
		w.Met = w.Ratio <= w.Target
	}
	r.Rows = append(r.Rows, w)
}

// String is the row for the log.
func (w row) String() string {
	return fmt.Sprintf("%s of %d KiB: %.1f, %s %.1f %s, ratio %.2f", w.What, w.Size>>10, w.OursMedian, w.Against, w.TheirsMedian, w.Unit, w.Ratio)
}

func (r *rep) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Software RDMA on %d emulated processors, medians of up to %d rounds in turn.\n\n", r.Processors, r.Rounds)
	b.WriteString("| | request | ours | perftest | program | ratio | target | |\n|---|---|---|---|---|---|---|---|\n")
	for _, w := range r.Rows {
		target, met := fmt.Sprintf("at least %.1f", w.Target), "missed"
		if w.Unit == "us" {
			target = fmt.Sprintf("at most %.1f", w.Target)
		}
		if w.Met {
			met = "met"
		}
		fmt.Fprintf(&b, "| %s | %d KiB | %.1f %s | %.1f %s | `%s` | %.2f | %s | %s |\n",
			w.What, w.Size>>10, w.OursMedian, w.Unit, w.TheirsMedian, w.Unit, w.Against, w.Ratio, target, met)
	}
	for _, m := range r.Missing {
		fmt.Fprintf(&b, "\nNot measured: %s\n", m)
	}
	return b.String()
}

func (r *rep) write() error {
	text, err := json.MarshalIndent(r, "", "  ")
	out := os.Getenv(envOut)
	return errors.Join(err,
		os.WriteFile(filepath.Join(out, "report.json"), append(text, '\n'), 0o644),
		os.WriteFile(filepath.Join(out, "report.md"), []byte(r.markdown()), 0o644))
}

func TestReport(t *testing.T) {
	r := newReport()
	r.add(row{What: "write bandwidth", Size: 64 << 10, Against: "ib_write_bw", Unit: "MB/s", Target: 0.9, Ours: []float64{40, 50, 10}, Theirs: []float64{50, 44, 60}})
	r.add(row{What: "write latency", Size: 64 << 10, Against: "ib_write_lat", Unit: "us", Target: 1.3, Ours: []float64{140, 120}, Theirs: []float64{100, 100}})
	r.Missing = append(r.Missing, "read latency of 64 KiB: no time is left")
	assert.False(t, r.Rows[0].Met)
	assert.True(t, r.Rows[1].Met)
	assert.Contains(t, r.markdown(), "| write bandwidth | 64 KiB | 40.0 MB/s | 50.0 MB/s | `ib_write_bw` | 0.80 | at least 0.9 | missed |\n")
	assert.Contains(t, r.markdown(), "| write latency | 64 KiB | 130.0 us | 100.0 us | `ib_write_lat` | 1.30 | at most 1.3 | met |\n\nNot measured: read latency of 64 KiB: no time is left\n")
}

package micro

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Result is one measured operation.
type Result struct {
	Suite string `json:"suite"`
	Name  string `json:"name"`
	// Bytes that one operation moves or covers, 0 where it works on numbers alone.
	Bytes int `json:"bytes,omitempty"`
	// NsPerOp is the median over rounds of the time of one operation, nanoseconds.
	NsPerOp float64 `json:"ns_per_op"`
	// GBps is Bytes by that time, 10^9 bytes a second.
	GBps float64 `json:"gbps,omitempty"`
	// Baseline names what the operation is compared with, and OfBaseline is its speed as a share
	// of that one's.
	Baseline   string  `json:"baseline,omitempty"`
	OfBaseline float64 `json:"of_baseline,omitempty"`
}

// Results is the outcome of a run.
type Results []Result

// Text prints the results for people.
func (rs Results) Text(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintf(t, "suite\toperation\t%12s\t%8s\t%s\n", "ns/op", "GB/s", "of the baseline")
	for _, r := range rs {
		gbps, baseline := "-", "-"
		if r.Bytes > 0 {
			gbps = fmt.Sprintf("%.2f", r.GBps)
		}
		if r.Baseline != "" {
			baseline = fmt.Sprintf("%.0f %% of %s", 100*r.OfBaseline, r.Baseline)
		}
		fmt.Fprintf(t, "%s\t%s\t%12.1f\t%8s\t%s\n", r.Suite, r.Name, r.NsPerOp, gbps, baseline)
	}
	t.Flush()
}

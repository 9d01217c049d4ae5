package transfer

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Report is the outcome of a sweep. The JSON keys are relied on by scripts, as those of
// Row are.
type Report struct {
	// Target is the segment at the other end, empty where the sweep started it itself.
	Target           string  `json:"target,omitempty"`
	Rounds           int     `json:"rounds"`
	RoundSeconds     float64 `json:"round_seconds"`
	WarmUpSeconds    float64 `json:"warm_up_seconds"`
	CheckConsistency bool    `json:"check_consistency"`
	// Interrupted says that the sweep did not come to its end.
	Interrupted bool  `json:"interrupted"`
	Results     []Row `json:"results"`
}

// WriteLine prints a row as a line of JSON.
func (r Row) WriteLine(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

// Text prints the rows for people. Tx is the time of a batch.
func (r Report) Text(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, strings.Join([]string{
		"Transport", "Op", "BlkSize (B)", "Batch", "Threads", "BW (GB/s)", "Avg Inst (GB/s)", "Avg Lat (us)", "Avg Tx (us)",
		"P50 Tx (us)", "P90 Tx (us)", "P99 Tx (us)", "P999 Tx (us)", "Limit (GB/s)", "Of limit", "",
	}, "\t"))
	for _, row := range r.Results {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t", row.transport(), row.Operation, row.BlockSize, row.BatchSize, row.Threads)
		if row.Skipped != "" {
			fmt.Fprintf(t, "%s\n", strings.Repeat("-\t", 10))
			continue
		}
		fmt.Fprintf(t, "%.3f\t%.3f\t%.2f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t", row.GBps, row.BatchGBps, row.RequestUs,
			row.MeanUs, row.P50Us, row.P90Us, row.P99Us, row.P999Us)
		if row.Limit != nil {
			fmt.Fprintf(t, "%.3f\t%.2f\t\n", row.Limit.GBps, row.OfLimit)
		} else {
			fmt.Fprint(t, "-\t-\t\n")
		}
	}
	t.Flush()
	for _, note := range r.notes() {
		fmt.Fprintf(w, "%s\n", note)
	}
}

// transport is the name with the number of connections: tcp/4.
func (r Row) transport() string {
	if r.Streams > 0 {
		return fmt.Sprintf("%s/%d", r.Transport, r.Streams)
	}
	return r.Transport
}

// notes are the sentences below the table.
func (r Report) notes() []string {
	var out []string
	seen := map[string]bool{}
	note := func(format string, args ...any) {
		if text := fmt.Sprintf(format, args...); !seen[text] {
			seen[text] = true
			out = append(out, text)
		}
	}
	verified, skipped := uint64(0), 0
	for _, row := range r.Results {
		if row.Skipped != "" {
			skipped++
		}
		if row.Limit != nil {
			note("limit of %s: %s", row.transport(), row.Limit.Name)
		}
		if row.Content != nil {
			verified += row.Content.Verified
			if err := row.Content.err(); err != nil {
				note("%s: %v", row.transport(), err)
			}
		}
	}
	if skipped > 0 {
		note("combinations left out since they need more memory than there is: %d; --buffer_size gives more", skipped)
	}
	if r.CheckConsistency {
		note("content: %d blocks compared", verified)
	}
	if r.Interrupted {
		note("interrupted: this is what was measured until then")
	}
	return out
}

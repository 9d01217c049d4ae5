package chaos

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// Event is what one fault of a pool with several masters did, for scripts and docs/performance.
type Event struct {
	Event  string `json:"event"`
	Rounds int    `json:"rounds"`
	Keys   int    `json:"keys"`
	// WorstPauseMS and MedianPauseMS are of the longest times of the rounds in which no whole read, no
	// read of a range or no put succeeded, in milliseconds.
	WorstPauseMS  int64 `json:"worst_pause_ms"`
	MedianPauseMS int64 `json:"median_pause_ms"`
	// KeptAckedRatio is the share of the keys that were put a second before the fault or earlier that were
	// readable afterwards, in the worst round; KeptRatio that of all keys.
	KeptRatio      float64 `json:"kept_ratio"`
	KeptAckedRatio float64 `json:"kept_acked_ratio"`
	Wrong          int     `json:"wrong"`
}

// Events are the events of a run.
type Events []Event

// ElectionNames returns the names of the faults of pools with several masters.
func ElectionNames() (names []string) {
	for _, f := range faults {
		if f.on.masters > 1 && !f.on.old {
			names = append(names, f.name)
		}
	}
	return names
}

// Events are the rows as events.
func (rows Rows) Events() Events {
	out := Events{}
	for _, r := range rows {
		pauses := slices.Sorted(slices.Values(r.Outages))
		all := r.Rounds*r.Keys + r.Fresh
		out = append(out, Event{
			Event: r.Fault, Rounds: r.Rounds, Keys: r.Keys, WorstPauseMS: pauses[len(pauses)-1], MedianPauseMS: pauses[len(pauses)/2],
			KeptRatio:      float64(r.Rounds*r.Readable+r.FreshReadable) / float64(all),
			KeptAckedRatio: float64(r.Readable) / float64(r.Keys), Wrong: r.Wrong,
		})
	}
	return out
}

// Text prints a table for people.
func (events Events) Text(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "EVENT\tWORST PAUSE\tMEDIAN PAUSE\tKEPT\tKEPT OF THOSE PUT A SECOND BEFORE\tWRONG\tROUNDS")
	for _, e := range events {
		fmt.Fprintf(t, "%s\t%s\t%s\t%.2f %%\t%.2f %%\t%d\t%d\n", e.Event, seconds(e.WorstPauseMS), seconds(e.MedianPauseMS), 100*e.KeptRatio, 100*e.KeptAckedRatio, e.Wrong, e.Rounds)
	}
	t.Flush()
}

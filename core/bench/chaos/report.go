package chaos

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Row is what one fault did, the worst of all rounds.
type Row struct {
	Fault string `json:"fault"`
	Keys  int    `json:"keys"`
	// Readable is how many of the keys can be read after the fault.
	Readable int `json:"readable"`
	// Wrong is how many pages and ranges had other bytes than were put, in all rounds.
	Wrong int `json:"wrong"`
	// LongestCallMS is the longest call of the load, OutageMS the longest time without a call that
	// read something, up to the end of the load where nothing is left to read. Both are in milliseconds.
	LongestCallMS int64 `json:"longest_call_ms"`
	OutageMS      int64 `json:"outage_ms"`
	Rounds        int   `json:"rounds"`
}

// Report is a row for each fault.
type Report []Row

// Wrong is how many pages and ranges of all rows had wrong bytes.
func (r Report) Wrong() (n int) {
	for _, row := range r {
		n += row.Wrong
	}
	return n
}

// Text prints the report for people.
func (r Report) Text(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "fault\treadable afterwards\twrong\tlongest call\tno success for\trounds")
	for _, x := range r {
		fmt.Fprintf(t, "%s\t%d of %d\t%d\t%d ms\t%d ms\t%d\n", x.Fault, x.Readable, x.Keys, x.Wrong, x.LongestCallMS, x.OutageMS, x.Rounds)
	}
	t.Flush()
}

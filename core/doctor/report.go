package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Report is what all checks have to say.
type Report struct {
	Results []Result
}

// Count returns the number of results with a status.
func (r Report) Count(s Status) int {
	n := 0
	for _, x := range r.Results {
		if x.Status == s {
			n++
		}
	}
	return n
}

// Worst returns the worst status, OK for no results.
func (r Report) Worst() Status {
	switch {
	case r.Count(Fail) > 0:
		return Fail
	case r.Count(Warn) > 0:
		return Warn
	default:
		return OK
	}
}

// WriteText writes the report for people: a line for a check, and for what is not in order
// the reason and the way out.
func (r Report) WriteText(w io.Writer) error {
	const indent = "                             "
	var b strings.Builder
	for _, x := range r.Results {
		fmt.Fprintf(&b, "%-5s %-22s %s\n", x.Status, x.Check, x.Found)
		for _, d := range x.Details {
			fmt.Fprintf(&b, "%s%s\n", indent, d)
		}
		if x.Why != "" {
			fmt.Fprintf(&b, "%swhy: %s\n", indent, x.Why)
		}
		if x.Do != "" {
			fmt.Fprintf(&b, "%sdo:  %s\n", indent, x.Do)
		}
	}
	fmt.Fprintf(&b, "\n%s: %d ok, %s, %s\n", count(len(r.Results), "check"), r.Count(OK), count(r.Count(Warn), "warning"), count(r.Count(Fail), "failure"))
	_, err := io.WriteString(w, b.String())
	return err
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// WriteJSON writes the report for programs.
func (r Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(struct {
		Status Status   `json:"status"`
		Checks []Result `json:"checks"`
	}{r.Worst(), r.Results})
}

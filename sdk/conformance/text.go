package conformance

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// WriteJSON writes the report as one JSON object.
func (r Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// WriteText writes the report for people: a line a check, what failed with its rule, and
// the figures.
func (r Report) WriteText(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "%s %s", r.Plugin, r.Version)
	for _, s := range []string{r.Mode, r.Home, r.Platform} {
		if s != "" {
			fmt.Fprintf(b, ", %s", s)
		}
	}
	fmt.Fprintln(b)
	if r.SHA256 != "" {
		fmt.Fprintf(b, "sha256 %s\n", r.SHA256)
	}
	for _, c := range r.Checks {
		fmt.Fprintln(b, c.Line())
		if c.Status == Fail {
			fmt.Fprintf(b, "      rule: %s\n%s", c.Rule, indent(c.Message))
		}
	}
	if len(r.Figures) > 0 {
		fmt.Fprintln(b, "figures")
		for _, f := range r.Figures {
			fmt.Fprintf(b, "      %-40s %12.6g %s\n", f.Name, f.Value, f.Unit)
		}
	}
	fmt.Fprintf(b, "%s: %d passed, %d failed, %d skipped, %.1f s\n", r.Plugin, r.Count(Pass), r.Count(Fail), r.Count(Skip), r.Seconds)
	return b.Flush()
}

// Line says in one line how the check ended.
func (c Check) Line() string {
	line := fmt.Sprintf("%s  %s (%.2f s)", c.Status, c.Name, c.Seconds)
	if c.Status == Skip {
		line = fmt.Sprintf("%s  %s: %s", c.Status, c.Name, firstLine(c.Message))
	}
	return line
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

func indent(s string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimRight(s, "\n") + "\n") {
		b.WriteString("      " + line)
	}
	return b.String()
}

// WriteDetails writes the logs of the checks that failed, and stacks of Go, for authors of plugins
// in Go and of the suites.
func (r Report) WriteDetails(w io.Writer) error {
	b := bufio.NewWriter(w)
	for _, c := range r.Checks {
		if c.Status == Fail {
			fmt.Fprintf(b, "%s\n%s%s", c.Name, indent(c.Log), indent(c.Detail))
		}
	}
	return b.Flush()
}

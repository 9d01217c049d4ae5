package wheels

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"text/tabwriter"
)

// row is the result of one check.
type row struct {
	Version string `json:"version"`
	Check   string `json:"check"`
	OK      bool   `json:"ok"`
	Detail  string `json:"detail"`
}

type results struct{ rows []row }

// write prints the table, and writes the rows to a file where one is named.
func (r *results) write(file string) error {
	if len(r.rows) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "version\tcheck\tok\tdetail")
	for _, row := range r.rows {
		fmt.Fprintf(w, "%s\t%s\t%t\t%s\n", row.Version, row.Check, row.OK, row.Detail)
	}
	if err := w.Flush(); err != nil || file == "" {
		return err
	}
	text, err := json.MarshalIndent(r.rows, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// check is a test that becomes a row.
type check struct {
	*testing.T
	failure string // the first one
	notes   []string
}

// run runs a check and reports whether it passed.
func run(t *testing.T, version, name string, do func(c *check)) bool {
	return t.Run(name, func(t *testing.T) {
		c := &check{T: t}
		defer func() {
			detail := strings.Join(c.notes, "; ")
			if t.Failed() {
				detail = c.failure
			}
			collected.rows = append(collected.rows, row{Version: version, Check: name, OK: !t.Failed(), Detail: detail})
		}()
		do(c)
	})
}

// Errorf fails the check.
func (c *check) Errorf(format string, args ...any) {
	c.Helper()
	if c.failure == "" {
		c.failure = condensed(fmt.Sprintf(format, args...))
	}
	c.T.Errorf(format, args...)
}

// notef adds to the detail of a check that passes.
func (c *check) notef(format string, args ...any) {
	c.notes = append(c.notes, fmt.Sprintf(format, args...))
	c.Logf(format, args...)
}

// condensed is a failure in one line: without the trace, which the test's own output has.
func condensed(text string) string {
	if _, after, ok := strings.Cut(text, "Error:"); ok {
		text, _, _ = strings.Cut(after, "Test:")
		if _, messages, ok := strings.Cut(after, "Messages:"); ok {
			text += " " + messages
		}
	}
	text = strings.Join(strings.Fields(text), " ")
	return text[:min(len(text), 400)]
}

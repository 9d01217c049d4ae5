package output

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"
)

// Columns are rows of text in aligned columns, two spaces apart.
type Columns struct{ rows []string }

// NewColumns returns columns with a heading each, or without headings.
func NewColumns(headings ...string) *Columns {
	c := &Columns{}
	if len(headings) > 0 {
		c.rows = append(c.rows, strings.Join(headings, "\t"))
	}
	return c
}

// Row adds a row and makes its cells printable.
func (c *Columns) Row(cells ...any) {
	texts := make([]string, len(cells))
	for i, cell := range cells {
		texts[i] = Printable(fmt.Sprint(cell))
	}
	c.rows = append(c.rows, strings.Join(texts, "\t"))
}

// Write writes all rows.
func (c *Columns) Write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range c.rows {
		if _, err := fmt.Fprintln(t, row); err != nil {
			return err
		}
	}
	return t.Flush()
}

// Printable replaces the characters of s that a terminal would obey. It is for text from other
// processes.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// Dash returns s, or a dash if s is empty.
func Dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

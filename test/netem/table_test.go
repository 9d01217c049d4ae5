package netem

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// table collects outcomes as Markdown. With a path it also appends each row to that file as it
// comes.
type table struct {
	path string
	rows []string
}

const tableHead = `| link | clients | round trip | loss | transport | operation | by | payload MB | failed | wrong | wire / payload | back / payload | elapsed s | elapsed / ideal |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
`

// add writes one row.
func (tab *table) add(t testing.TB, o result) {
	t.Helper()
	c, failed := o.cell, "0"
	if n := o.failed(); n > 0 {
		failed = fmt.Sprintf("**%d of %d** (%s)", n, o.Requests, codes(o.Failed))
	}
	row := fmt.Sprintf("| %s | %d | %d ms | %g %% | %s | %s %s | %s | %.1f | %s | %d | %.2f | %.2f | %.1f | %.2f |\n",
		rateName(c.Rate), c.Clients, c.RoundTrip.Milliseconds(), c.Loss*100, c.Transport, c.Level, o.op.name, o.of, float64(c.payload())/1e6,
		failed, o.Wrong, o.wire(), float64(o.Back)/float64(c.payload()), o.Seconds, o.Seconds/c.ideal().Seconds())
	t.Log(strings.TrimSpace(row))
	head := ""
	if len(tab.rows) == 0 {
		head = tableHead
	}
	tab.rows = append(tab.rows, row)
	if tab.path == "" {
		return
	}
	f, err := os.OpenFile(tab.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	if _, err := f.WriteString(head + row); err != nil {
		t.Error(err)
	}
}

func (tab *table) String() string { return tableHead + strings.Join(tab.rows, "") }

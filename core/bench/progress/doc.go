// Package progress shows how far workers are: one bar for each on a terminal, a plain line
// now and then elsewhere, so that a log stays readable.
package progress

import (
	"io"
	"os"

	"golang.org/x/term"

	"github.com/mooncake-go/mooncake/core/bench/worker"
)

// Display shows the progress of a fixed number of workers. It is safe for concurrent use.
type Display interface {
	// Update shows the latest figures of a worker. It does not block on the output for
	// longer than a write takes. An unknown worker is ignored.
	Update(n int, p worker.Progress)
	// Note prints a line, for an event such as a worker that ended early, without
	// disturbing the bars.
	Note(line string)
	// Close shows the last figures and leaves the output to others. Repeatable.
	Close()
}

// New makes a Display on w, standard error as a rule. totals has the number of requests
// of each worker, 0 where it is not known. Bars are shown when w is a terminal.
func New(w io.Writer, totals []int) Display {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return NewBars(w, totals)
	}
	return NewLines(w, totals)
}

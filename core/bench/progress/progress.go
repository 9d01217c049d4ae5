// Package progress shows how far workers are: one line that changes in place on a terminal, a plain
// line now and then elsewhere, so that a log stays readable.
package progress

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/mooncake-go/mooncake/core/bench/report"
	"github.com/mooncake-go/mooncake/core/bench/worker"
)

const (
	// Interval is the least time between two plain lines.
	Interval = 2 * time.Second
	// refresh is the least time between two changes of a line on a terminal.
	refresh = 100 * time.Millisecond
	// erase returns to the start of a line and clears it.
	erase = "\r\x1b[K"
)

// Display shows the progress of all workers together. It starts no goroutine and ignores errors of its
// writer: progress is not worth failing for. It is safe for concurrent use.
type Display struct {
	mu       sync.Mutex
	out      io.Writer
	terminal bool
	latest   []worker.Progress
	total    int // 0 when that of any worker is not known
	last     time.Time
	closed   bool
}

// New makes a Display on w, standard error as a rule. totals has the number of requests of each worker,
// 0 where it is not known.
func New(w io.Writer, totals []int) *Display {
	f, ok := w.(*os.File)
	return newDisplay(w, ok && term.IsTerminal(int(f.Fd())), totals)
}

func newDisplay(w io.Writer, terminal bool, totals []int) *Display {
	d := &Display{out: w, terminal: terminal, latest: make([]worker.Progress, len(totals)), last: time.Now()}
	for _, n := range totals {
		if n <= 0 {
			d.total = 0
			break
		}
		d.total += n
	}
	return d
}

// Update takes the latest figures of worker n. It ignores an unknown worker.
func (d *Display) Update(n int, p worker.Progress) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || n < 0 || n >= len(d.latest) {
		return
	}
	d.latest[n] = p
	every := Interval
	if d.terminal {
		every = refresh
	}
	if time.Since(d.last) >= every {
		d.last = time.Now()
		d.show()
	}
}

// Note prints a line of its own, for an event such as a worker that ended early.
func (d *Display) Note(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.terminal && !d.closed {
		line = erase + line
	}
	_, _ = fmt.Fprintln(d.out, line)
}

// Close shows the last figures and leaves the output to others. Repeatable.
func (d *Display) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	d.show()
	d.closed = true
	if d.terminal {
		_, _ = fmt.Fprintln(d.out)
	}
}

// show writes the figures of all workers. d.mu is held.
func (d *Display) show() {
	var p worker.Progress
	for _, w := range d.latest {
		p.Add(w)
	}
	of := ""
	if d.total > 0 {
		of = fmt.Sprintf(" of %d", d.total)
	}
	line := fmt.Sprintf("requests %d%s, hits %.1f %%, ", p.Requests, of, hitRatio(p))
	if d.terminal { // Fits into 80 columns.
		_, _ = fmt.Fprintf(d.out, "%s%s%s moved, %d wrong", erase, line, report.Bytes(p.BytesGet+p.BytesPut), p.PagesWrong)
		return
	}
	_, _ = fmt.Fprintf(d.out, "%sget %s, put %s, %d verified, %d wrong\n",
		line, report.Bytes(p.BytesGet), report.Bytes(p.BytesPut), p.PagesVerified, p.PagesWrong)
}

// hitRatio is in percent.
func hitRatio(p worker.Progress) float64 {
	if p.BlocksLooked == 0 {
		return 0
	}
	return 100 * float64(p.BlocksHit) / float64(p.BlocksLooked)
}

package progress

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/report"
	"github.com/mooncake-go/mooncake/core/bench/worker"
)

// Interval is the least time between two plain lines.
const Interval = 2 * time.Second

// NewLines makes a Display that writes a line about all workers together, at most one for
// each Interval, and a last one on Close. It starts no goroutine. Errors of w are ignored:
// progress is not worth failing for.
func NewLines(w io.Writer, totals []int) Display {
	l := &lines{out: w, latest: make([]worker.Progress, len(totals)), last: time.Now()}
	for _, n := range totals {
		if n <= 0 {
			l.total = 0
			break
		}
		l.total += n
	}
	return l
}

type lines struct {
	mu     sync.Mutex
	out    io.Writer
	latest []worker.Progress
	total  int // 0 when that of any worker is not known
	last   time.Time
	closed bool
}

// Update implements Display.
func (l *lines) Update(n int, p worker.Progress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || n < 0 || n >= len(l.latest) {
		return
	}
	l.latest[n] = p
	if time.Since(l.last) >= Interval {
		l.last = time.Now()
		l.print()
	}
}

// Note implements Display.
func (l *lines) Note(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = fmt.Fprintln(l.out, line)
}

// Close implements Display.
func (l *lines) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.closed = true
		l.print()
	}
}

func (l *lines) print() {
	var p worker.Progress
	for _, w := range l.latest {
		p.Add(w)
	}
	of := ""
	if l.total > 0 {
		of = fmt.Sprintf(" of %d", l.total)
	}
	_, _ = fmt.Fprintf(l.out, "requests %d%s, %s\n", p.Requests, of, figures(p))
}

// figures is what a line says of all workers.
func figures(p worker.Progress) string {
	return fmt.Sprintf("hits %.1f %%, get %s, put %s, %d verified, %d wrong",
		hitRatio(p), report.Bytes(p.BytesGet), report.Bytes(p.BytesPut), p.PagesVerified, p.PagesWrong)
}

// hitRatio is in percent.
func hitRatio(p worker.Progress) float64 {
	if p.BlocksLooked == 0 {
		return 0
	}
	return 100 * float64(p.BlocksHit) / float64(p.BlocksLooked)
}

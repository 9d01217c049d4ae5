package progress

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/mooncake-go/mooncake/core/bench/report"
	"github.com/mooncake-go/mooncake/core/bench/worker"
)

// NewBars makes a Display with one bar for each worker, drawn on w whatever it is. Its
// goroutines end with Close.
func NewBars(w io.Writer, totals []int) Display {
	b := &bars{
		box:    mpb.New(mpb.WithOutput(w), mpb.WithAutoRefresh()),
		bars:   make([]*mpb.Bar, len(totals)),
		latest: make([]atomic.Pointer[worker.Progress], len(totals)),
	}
	for n, total := range totals {
		latest := &b.latest[n]
		latest.Store(&worker.Progress{})
		b.bars[n] = b.box.AddBar(int64(total), mpb.BarWidth(width),
			mpb.PrependDecorators(
				decor.Name(fmt.Sprintf("worker-%d ", n+1)),
				decor.Any(func(decor.Statistics) string { return count(latest.Load().Requests, total) }),
			),
			mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return short(*latest.Load()) })),
		)
	}
	return b
}

// width of a bar in columns, so that a line fits into 80.
const width = 24

func count(done uint64, total int) string {
	if total <= 0 {
		return fmt.Sprint(done)
	}
	return fmt.Sprintf("%d/%d", done, total)
}

// short is what a bar says of its worker.
func short(p worker.Progress) string {
	return fmt.Sprintf("hits %.1f %%, %s, %d wrong", hitRatio(p), report.Bytes(p.BytesGet+p.BytesPut), p.PagesWrong)
}

type bars struct {
	box    *mpb.Progress
	bars   []*mpb.Bar
	latest []atomic.Pointer[worker.Progress]
	once   sync.Once
}

// Update implements Display.
func (b *bars) Update(n int, p worker.Progress) {
	if n < 0 || n >= len(b.bars) {
		return
	}
	b.latest[n].Store(&p)
	b.bars[n].SetCurrent(int64(p.Requests))
}

// Note implements Display.
func (b *bars) Note(line string) {
	// After Close the box refuses. The line is then dropped, so that it does not disturb other
	// output to the terminal.
	_, _ = b.box.Write([]byte(line + "\n"))
}

// Close implements Display.
func (b *bars) Close() {
	b.once.Do(func() {
		for _, bar := range b.bars {
			// A bar that is not full would be waited for; it stays as it stands.
			bar.Abort(false)
		}
		b.box.Wait()
	})
}

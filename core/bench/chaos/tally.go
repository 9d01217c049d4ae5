package chaos

import (
	"fmt"
	"sync"
	"time"
)

// tally adds up what calls did, from mark on. Wrong bytes count from the beginning. Safe for
// concurrent use.
type tally struct {
	mu      sync.Mutex
	longest time.Duration
	slowest kind                 // of longest
	last    [kinds]time.Time     // the last success
	silence [kinds]time.Duration // the longest time between two
	wrong   int
	// calls that had failed, and how many failed again
	repeats, failedTwice int
	details              []string
}

// mark begins the measurement, at the fault.
func (t *tally) mark(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.longest = 0
	for k := range kinds {
		t.last[k], t.silence[k] = now, 0
	}
}

// call records a call that has ended. Only a success with the right bytes is a success.
func (t *tally) call(k kind, begin, end time.Time, success bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if took := end.Sub(begin); took > t.longest {
		t.longest, t.slowest = took, k
	}
	if success && end.After(t.last[k]) {
		t.silence[k] = max(t.silence[k], end.Sub(t.last[k]))
		t.last[k] = end
	}
}

// bad records wrong bytes of a page.
func (t *tally) bad(format string, args ...any) {
	t.mu.Lock()
	t.wrong++
	t.mu.Unlock()
	t.detail(format, args...)
}

// detail keeps a line about what went wrong.
func (t *tally) detail(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.details) < maxDetails {
		t.details = append(t.details, fmt.Sprintf(format, args...))
	}
}

// repeated records how a call went that had failed.
func (t *tally) repeated(k kind, err error) {
	t.mu.Lock()
	t.repeats++
	if err != nil {
		t.failedTwice++
	}
	t.mu.Unlock()
	if err != nil {
		t.detail("a %s failed twice: %v", k, err)
	}
}

// since reports whether each kind of call has succeeded since a time.
func (t *tally) since(at time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, last := range t.last {
		if !last.After(at) {
			return false
		}
	}
	return true
}

// end ends the measurement and fills a row.
func (t *tally) end(now time.Time, r *Row) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r.LongestCallMS, r.slowest, r.OutageMS = t.longest.Milliseconds(), t.slowest, -1
	for k := range kinds {
		if ms := max(t.silence[k], now.Sub(t.last[k])).Milliseconds(); ms > r.OutageMS {
			r.OutageMS, r.silent = ms, k
		}
	}
}

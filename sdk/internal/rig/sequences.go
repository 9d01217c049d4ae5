package rig

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/sdk/conformance"
)

// Within calls f on a goroutine of its own, and fails the check if f has not returned at the limit. what names the call, and is
// called only then. A call that hangs is left behind.
func Within(t require.TestingT, limit time.Duration, what func() string, f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		t.Errorf("%s has not returned after %v", what(), limit)
		t.FailNow()
	}
}

// Sequences runs f on random sequences of calls. It reports the shortest sequence that fails, as f has noted it.
func Sequences(t conformance.TB, f func(*rapid.T, *Sequence)) {
	t.Helper()
	last, quiet := &Sequence{}, &silent{TB: t}
	done := make(chan struct{})
	go func() { // rapid ends the goroutine of a check that fails.
		defer close(done)
		rapid.Check(quiet, func(rt *rapid.T) {
			last = &Sequence{rt: rt}
			f(rt, last)
		})
	}()
	<-done
	if !quiet.Failed() {
		return
	}
	last.mu.Lock()
	defer last.mu.Unlock()
	text := quiet.text // Of a panic, and of a plugin that fails now and then.
	if last.failure != "" {
		text = last.failure
	}
	t.Fatalf("%s\nafter the calls\n%s", text, strings.Join(lastOf(last.calls, shownCalls), "\n"))
}

// shownCalls is how many calls of a sequence a report shows.
const shownCalls = 12

func lastOf(calls []string, n int) []string {
	if len(calls) <= n {
		return calls
	}
	return append([]string{fmt.Sprintf("(%d calls)", len(calls)-n)}, calls[len(calls)-n:]...)
}

// Sequence is one sequence of calls, and where it reports to. It is a require.TestingT.
type Sequence struct {
	rt      *rapid.T
	mu      sync.Mutex
	calls   []string
	failure string
}

// Note adds a call to the sequence.
func (s *Sequence) Note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, fmt.Sprintf(format, args...))
}

// Errorf implements require.TestingT.
func (s *Sequence) Errorf(format string, args ...any) {
	s.mu.Lock()
	if s.failure == "" {
		s.failure = Plain(fmt.Sprintf(format, args...))
	}
	s.mu.Unlock()
	s.rt.Fail()
}

// FailNow implements require.TestingT.
func (s *Sequence) FailNow() { s.rt.FailNow() }

// silent keeps what rapid says from the report.
type silent struct {
	conformance.TB
	mu     sync.Mutex
	failed bool
	text   string
}

func (q *silent) Log(...any)          {}
func (q *silent) Logf(string, ...any) {}
func (q *silent) Error(args ...any)   { q.fail(fmt.Sprint(args...)) }
func (q *silent) Errorf(format string, args ...any) {
	q.fail(fmt.Sprintf(format, args...))
}
func (q *silent) Fail() { q.fail("") }
func (q *silent) Fatal(args ...any) {
	q.fail(fmt.Sprint(args...))
	runtime.Goexit()
}

func (q *silent) Fatalf(format string, args ...any) {
	q.fail(fmt.Sprintf(format, args...))
	runtime.Goexit()
}

func (q *silent) FailNow() {
	q.fail("")
	runtime.Goexit()
}

func (q *silent) Failed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.failed
}

func (q *silent) fail(text string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.failed = true; q.text == "" {
		q.text, _, _ = strings.Cut(strings.TrimPrefix(text, "[rapid] "), "\nT") // "To reproduce", "Traceback"
	}
}

// Plain returns what a failure of testify says, without the places in the code.
func Plain(text string) string {
	var out []string
	label := ""
	for line := range strings.Lines(text) {
		line = strings.TrimPrefix(strings.TrimRight(line, "\n"), "\t")
		if name, rest, found := strings.Cut(line, ":"); found {
			switch name {
			case "Error Trace", "Error", "Messages", "Test":
				label, line = name, rest
			}
		}
		if line = strings.TrimSpace(line); line != "" && label != "Error Trace" && label != "Test" {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}

package lasterr

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"
)

// thread runs functions on one thread of its own, one after the other.
func thread(t *testing.T) (on func(func())) {
	do, done := make(chan func()), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		for f := range do {
			f()
			done <- struct{}{}
		}
	}()
	t.Cleanup(func() { close(do) })
	return func(f func()) { do <- f; <-done }
}

func TestASuccessClears(t *testing.T) {
	var r Record
	thread(t)(func() {
		assert.Empty(t, r.Text())
		r.Begin()
		r.Note(0, errors.New("first"))
		r.Note(0, nil) // another part of the same call
		assert.Equal(t, "first", r.Text())
		assert.Equal(t, "first", r.Text(), "to ask is no call")
		r.Begin()
		assert.Empty(t, r.Text())
		r.Note(0, errors.New(strings.Repeat("x", 5000)))
		assert.Len(t, r.Text(), maxText)
	})
}

// TestThreadsAreApart: neither a success nor a failure of one thread changes what another one
// is told.
func TestThreadsAreApart(t *testing.T) {
	var r Record
	a, b, idle := thread(t), thread(t), thread(t)
	a(func() { r.Begin(); r.Note(0, errors.New("of a")) })
	b(func() {
		r.Begin()
		assert.Empty(t, r.Text(), "its own call succeeded")
	})
	a(func() { assert.Equal(t, "of a", r.Text()) })
	b(func() { r.Begin(); r.Note(0, errors.New("of b")) })
	a(func() { assert.Equal(t, "of a", r.Text()) })
	idle(func() { assert.Equal(t, "of b", r.Text(), "the newest") })
	a(func() { r.Begin() })
	b(func() { r.Begin() })
	for _, on := range []func(func()){a, b, idle} {
		on(func() { assert.Empty(t, r.Text()) })
	}
	assert.Empty(t, r.threads, "nothing is kept without failures")
}

// TestWorkOfAnotherGoroutine: what fails for a caller on another thread is the caller's.
func TestWorkOfAnotherGoroutine(t *testing.T) {
	var r Record
	caller, worker := thread(t), thread(t)
	var id int
	caller(func() { r.Begin(); id = unix.Gettid() })
	worker(func() { r.Note(id, errors.New("moved")); r.Note(0, errors.New("of the worker")) })
	caller(func() {
		assert.Equal(t, "moved", r.Text())
		r.Begin()
		assert.Empty(t, r.Text())
	})
}

// TestManyThreads: threads that ended with a failure do not fill the memory.
func TestManyThreads(t *testing.T) {
	var r Record
	for i := range 3 * maxThreads {
		r.put(-1-i, errors.New("gone"))
	}
	assert.LessOrEqual(t, len(r.threads), maxThreads)
	failures := 0
	for _, err := range r.threads {
		if err != nil {
			failures++
		}
	}
	assert.EqualValues(t, failures, r.failures.Load())
}

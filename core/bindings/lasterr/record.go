// Package lasterr records why calls failed, like errno: for each thread of the caller the error of
// its last call. A success of one thread does not clear the error of another.
package lasterr

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// maxText bounds the result of Text, in bytes, and maxThreads the threads that are remembered.
const (
	maxText    = 2048
	maxThreads = 1024
)

// Record has the results of the last calls on one object. A call belongs to the thread on which
// Begin and Text run: the caller's, since a call from C stays on its thread. The zero value is
// ready. A Record is safe for concurrent use.
type Record struct {
	failures atomic.Int32 // entries with an error; 0 costs a call nothing

	mu      sync.Mutex
	threads map[int]error // results of the last call of each thread, nil for a success; empty while there are no failures
	newest  error         // the newest failure
}

// Begin records that the thread makes a call, and forgets the error of its previous call.
func (r *Record) Begin() {
	if r.failures.Load() == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.put(unix.Gettid(), nil)
}

// Note records why the call of a thread failed; 0 is the running thread. A nil error has no effect,
// since one part of a call may succeed after another part failed.
func (r *Record) Note(thread int, err error) {
	if err == nil {
		return
	}
	if thread == 0 {
		thread = unix.Gettid()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.put(thread, err)
	r.newest = err
}

// put sets the entry of a thread. Without failures there are no entries. mu is held.
func (r *Record) put(thread int, err error) {
	before, known := r.threads[thread]
	if !known && len(r.threads) >= maxThreads {
		r.threads = nil // Most of these threads have ended.
		r.failures.Store(0)
	}
	if r.threads == nil {
		r.threads = map[int]error{}
	}
	r.threads[thread] = err
	switch {
	case before == nil && err != nil:
		r.failures.Add(1)
	case before != nil && err == nil && r.failures.Add(-1) == 0:
		r.threads, r.newest = nil, nil
	}
}

// Text returns why the last call of this thread failed. It is empty after a success. For a thread
// that has made no call since the first failure, such as an event loop whose calls run in other
// threads, it is the newest failure of any thread.
func (r *Record) Text() string {
	if r.failures.Load() == 0 {
		return ""
	}
	r.mu.Lock()
	err, called := r.threads[unix.Gettid()]
	if !called {
		err = r.newest
	}
	r.mu.Unlock()
	if err == nil {
		return ""
	}
	text := err.Error()
	if len(text) > maxText {
		text = text[:maxText-3] + "..."
	}
	return text
}

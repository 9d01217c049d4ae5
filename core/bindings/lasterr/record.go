// Package lasterr keeps why calls failed, as errno does: for each thread of the caller its last
// call, so that a success of one thread does not take away what another one is about to ask.
package lasterr

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// maxSentence bounds Text, in bytes, and maxThreads the threads that are remembered.
const (
	maxSentence = 2048
	maxThreads  = 1024
)

// Record is what became of the last calls on one object. A call belongs to the thread that
// Begin and Text run on: the caller's, as a call from C keeps it. The zero value is ready.
// Safe for concurrent use.
type Record struct {
	failures atomic.Int32 // entries with an error; 0 costs a call nothing

	mu      sync.Mutex
	threads map[int]error // what the last call of a thread gave, nil for a success; empty while there are no failures
	newest  error         // of the failures
}

// Begin notes that the thread makes a call: what its last one failed on is forgotten.
func (r *Record) Begin() {
	if r.failures.Load() == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.put(unix.Gettid(), nil)
}

// Note keeps why the call of a thread failed, 0 for the one that it runs on; nil says nothing, as
// one part of a call may succeed after another one failed.
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
		r.threads = nil // Most of so many have ended.
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

// Text says why the last call of this thread failed, empty where it succeeded. For a thread
// that made no call since the first failure, such as an event loop whose calls run in
// others, it is the newest failure of any thread.
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
	if len(text) > maxSentence {
		text = text[:maxSentence-3] + "..."
	}
	return text
}

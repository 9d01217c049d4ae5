package shm

import (
	"github.com/mooncake-go/mooncake/sdk/transport/pathkit"
)

// op is an accepted operation. path.mu guards it, but for what belongs to the pool while it
// is queued.
type op struct {
	pathkit.Record
	path   *path
	remote *remote

	left    int              // bytes that are not settled yet
	err     error            // the first failure; nothing is copied after it
	waiting bool             // in remote.waiting
	link    pathkit.Link[op] // in the queue of the pool, or of remote.waiting

	// The pool's, under its lock.
	cut    int  // bytes of local that were given to workers
	step   int  // how many at a time
	queued bool // in the pool's queue
}

// abort fails an operation. It completes at once, or when the copies in flight ended.
func (p *path) abort(o *op, err error) {
	if o.err != nil {
		return
	}
	o.err = err
	if o.waiting {
		o.remote.waiting.Remove(&o.link)
		o.waiting = false
		o.left = 0
	} else {
		o.left -= p.n.work.withdraw(o)
	}
	p.finish(o)
}

// abortAll fails the operations in flight: those on the remote, or all where it is nil.
func (p *path) abortAll(r *remote, err error) {
	for o := range p.Active() {
		if r == nil || o.remote == r {
			p.abort(o, err)
		}
	}
}

// finish completes an operation that has nothing left to do.
func (p *path) finish(o *op) {
	if o.left > 0 {
		return
	}
	p.n.stats.Ended(o.Kind, len(o.Local), o.err, false)
	p.Finish(o, o.err, false)
}

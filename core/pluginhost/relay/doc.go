// Package relay makes a transport that outlives the processes that carry it.
//
// The caller sees one transport.Transport. Below it is a Life for each process: the one
// that new work goes to, and, after a change to another, those that still have something
// to finish. The relay keeps what a new life must know: the name that was joined, the
// registered regions in their order, and every path with the endpoint that was dialled and
// the keys that were imported.
//
//	life := r.Begin(t)               // a started process
//	err := r.Lay(ctx, life)          // paths, beforehand: only for a change without a gap
//	err = r.Enroll(ctx, life)        // regions; others wait from here ...
//	r.Use(life)                      // ... to here
//	r.Lost(life)                     // nothing new goes to it
//	r.Ended(life)                    // it is gone: what it had under way is complete
//	r.Retire(ctx, life, grace)       // or: it finishes, and is not needed any more
//
// An accepted operation belongs to the life that took it, and completes there: exactly
// once, because each life completes each of its operations exactly once. While a path has
// no life, Submit refuses with class transient-path at once, local-device where none will
// come.
package relay

// Package relay makes a transport that outlives the processes that carry it.
//
// The caller sees one transport.Transport. Below it is a Generation for each process: the
// current one, which takes new work, and older ones that still have work to finish. The relay
// keeps the state that a new generation needs: the name that was joined, the registered regions
// in their order, and every path with the endpoint that was dialled and the keys that were
// imported.
//
//	gen := r.Begin(t)               // a process was started
//	err := r.Lay(ctx, gen)          // dial the paths ahead of time, for a change without a gap
//	err = r.Enroll(ctx, gen)        // register the regions; other changes wait from here ...
//	r.Use(gen)                      // ... to here
//	r.Lost(gen)                     // send it no more work
//	r.Ended(gen)                    // the process is gone and its operations are complete
//	r.Retire(ctx, gen, grace)       // or: let it finish, after which it is not needed
//
// An accepted operation belongs to the generation that took it and completes there. It
// completes exactly once, because each generation completes each of its operations exactly
// once. While a path has no generation, Submit fails at once: with class transient-path if
// another generation will follow, with class local-device if none will.
package relay

// Package pathkit is the half of a transport.Path that is the same in every transport: the
// queue of completions and how reapers wait for it, the keys that were imported, the
// operations under way with their bounds and deadlines, and the errors about all that.
//
// What is left to the author of a transport is to move bytes. A path embeds a Base and its
// lock, an operation embeds a Record:
//
//	type op struct {
//		pathkit.Record
//		sent int // whatever the transport has to know of it
//	}
//
//	type path struct {
//		mu sync.Mutex
//		pathkit.Base[*remote, op, *op]
//	}
//
// Reap comes with it. Import decodes the key and calls AddKey; Submit calls Check, Room and
// Accept for each operation and starts it; whoever learns how it ended calls Finish, once;
// Close calls Shut and ends what is Active. The example shows a whole path.
//
// Locking: the lock is the path's own, and guards a Base as it guards the rest of the
// path. Every method says whether the caller holds it. Nothing blocks while it is held, and
// no method calls back into the transport, but for the function that is given to Init. The
// function of DeliverTo is the host's; it does not call the path.
//
// Cost: no operation allocates once a path has had as many under way as it ever will.
//
// The package imports the standard library, sdk/transport and sdk/errs only.
package pathkit

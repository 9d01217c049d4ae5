// Package fakeverbs builds a libibverbs.so.1 for tests and steers it: devices that exist in
// memory only, and fail when they are told to.
//
//	w := fakeverbs.New(t, fakeverbs.Config{Devices: 2})
//	lib, err := verbs.Open(w.Path()) // devices fake0 and fake1, each with port 1
//
// The library is written in C (folder src) and loaded with dlopen like the real one, so what a test
// exercises is the whole way down. Each New makes a world of its own: a copy of the library and
// a file beside it, which the library and the test map. Other processes that load the same copy
// join the world, and their QPs can be connected to those of this one; memory then moves with
// process_vm_readv.
//
// Work is done as on a device: a thread for each open device executes what is posted, in order
// within a QP; protection, ranges, keys, states and limits are checked, and what is wrong ends the
// QP and flushes it. Faults are rules: a call that fails (World.FailCall), or a request whose
// completion is lost, late, doubled, out of order, damaged, or an error (World.Fault).
//
// The memory of the process must be reachable by process_vm_readv, also for itself; some
// sandboxes do not allow that, and New then skips the test and says so. It needs gcc.
package fakeverbs

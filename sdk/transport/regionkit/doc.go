// Package regionkit is the half of serving peers that is the same in every transport that moves
// the bytes itself: the table of registered regions, what a request of a peer is checked against, and
// how a region is withdrawn that peers are still at.
//
// Register calls Add and makes a key of what it returns; Deregister calls Remove. Whoever reads a
// request calls Acquire, works with the memory that it gets, and calls Release. What works with memory is
// a Holder, a connection or a single request, which Remove can cut off.
//
// The package imports the standard library, sdk/transport and sdk/errs only.
package regionkit

// Package segments keeps the memory that nodes contribute to the pool and the clients
// that are known to be alive.
//
// It calls no plugin: the master tells the allocator about spaces itself and keeps both
// in step. Readers work on an immutable View; mounting, unmounting and a change of status
// publish a new one.
//
// Health weighs the segments by what clients report of each other's nodes. A weight only
// moves a segment back in the order in which placement tries them, so that a pool in which
// every node is unwell goes on.
package segments

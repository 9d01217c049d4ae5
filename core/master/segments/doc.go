// Package segments keeps the memory that nodes contribute to the pool and the clients
// that are known to be alive.
//
// It calls no plugin: the master tells the allocator about spaces itself and keeps both
// in step. Readers work on an immutable View; mounting and unmounting publish a new one.
package segments

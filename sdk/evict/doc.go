// Package evict is the contract of eviction policies.
//
// A policy ranks objects but never deletes them. The master reports what happened (Record), asks
// for victims (Propose) and reports which of them it evicted (Resolve), because only the master
// knows leases, pins and unfinished writes.
//
// Objects are numbers, never keys or pointers, so that a policy can hold millions of them
// in a few flat arrays. All calls carry batches: a call through a subprocess costs about
// 100 us, a call in process about 10 ns.
//
// Units: sizes are bytes. Concurrency: the master calls one policy from several
// goroutines; a policy must be safe for concurrent use. Order: events within one Record
// call, and across sequential calls, are in the order in which they happened.
//
// The package imports the standard library only.
package evict

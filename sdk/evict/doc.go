// Package evict is the contract of eviction policies.
//
// A policy ranks objects but never deletes them. The master reports what happened (Record), asks
// for victims (Propose) and reports which of them it evicted (Resolve), because only the master
// knows leases, pins and unfinished writes.
//
// How a policy is asked: a master collects events and passes them on every 10 ms, and before each
// call of Propose, in batches of at most 65,536. Under overload it leaves accesses out, never inserts
// or removes. It asks for victims when its memory is filled to the high watermark, and when a put
// finds no space: for the bytes that are missing, at most 4096 victims a call. It asks again for
// twice as many bytes if all victims were protected, and resolves each batch before it evicts for
// the next caller; victims that are leased have no verdict until the lease ends. A policy that was
// started again gets an Insert for every object in batches of 1024, oldest access first. Each call
// may take 5 s.
//
// Capacity: a policy that implements Sized learns how much memory there is: after its start, and
// within 10 ms whenever segments come or go. A master with several cells has a policy for each, and
// each learns the memory of its cell. A policy must work while the capacity is unknown, because older
// hosts do not tell it. Propose is only called when memory is short, so that the bytes that a policy
// then knows are about its capacity. They can be less: each replica of an object takes memory, and
// memory that is being written has no object yet.
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

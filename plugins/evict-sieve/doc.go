// Package sieve is the eviction policy evict/sieve, after "SIEVE is Simpler than LRU" (Zhang
// and others, NSDI 2024): objects stay in the order of insertion; a hand goes over them from
// the oldest to the newest and around again, takes the first that was not read since it last
// came by, and waits there.
//
// New objects are looked at soon, so that those that nobody reads again go early, while old
// ones that are read stay without being moved.
package sieve

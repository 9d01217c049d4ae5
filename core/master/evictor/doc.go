// Package evictor makes space: it tells the eviction policy what happened, asks it for victims,
// and removes the victims that no reader relies on.
//
// A proposed victim that is leased is parked: for the policy it stays proposed, and it is the
// first candidate once its lease ends, in the policy's own order. Skipping it instead would move
// it to the recent end of the order, where only reads should bring an object. A parked object
// that is read meanwhile is skipped and takes the place that its read gives it.
//
// Three things can go beyond what is due, when an eviction must reach its floor: what only
// a lookup protects, since a lookup moves no bytes; then what is softly pinned, the longest
// unread first. The other members of an evicted object's group go with it.
//
// An eviction for the quota of one owner does not ask the policy, which ranks the objects of
// all together: it takes the least recently used of a sample of what the owner has, all of
// it where that is little.
//
// The policy may be a subprocess: every call carries a batch, has a time limit, and is made
// without a lock of the object table. One eviction runs at a time.
package evictor

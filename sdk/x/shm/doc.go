// Package shm is what two processes need to work on the same memory: sealed memory files
// (memfd), a socket that carries their descriptors, rings of fixed-size entries, and bells
// that wake whoever waits for a ring.
//
// Nothing here trusts the other process. A memory file that could be cut short is refused,
// because touching a page beyond its end kills whoever does it. What the other side wrote
// into a ring is copied out before it is looked at, an index that cannot be right is
// ErrCorrupt and never a wrong address, and every wait ends with its context.
//
// Linux only. Everything is safe for concurrent use except where it says otherwise.
package shm

// Package shm lets two processes work on the same memory. It has sealed memory files (memfd), a
// socket that carries their descriptors, rings of fixed-size entries, and bells that wake the
// consumer of a ring.
//
// Nothing here trusts the other process. The package refuses a memory file that can shrink, because
// touching a page beyond its end kills the process. It copies what the other side wrote into a ring
// before it checks it. An index that cannot be right yields ErrCorrupt and never a wrong address,
// and every wait ends with its context.
//
// The package is for Linux only. Everything is safe for concurrent use except where it says
// otherwise.
package shm

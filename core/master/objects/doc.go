// Package objects is the master's table of objects: which keys exist, where their copies lie,
// which clients are writing them, and until when readers may rely on them.
//
// The table is cut into shards by the hash of the key, each with its own lock. Every
// operation is on one key and holds one lock for well under a microsecond; no operation
// calls out of the package while it holds one. Everything is safe for concurrent use.
//
// The table owns no memory of the pool. Operations that remove an object return its extents to
// the caller. The caller frees them after the lock is released.
//
// What happened to objects is noted as events for the eviction policy, numbered in the
// order in which it happened, and handed out by Drain.
package objects

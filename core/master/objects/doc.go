// Package objects is the master's table of objects: which keys exist, where their copies
// lie, who is writing them and until when readers may count on them.
//
// The table is cut into shards by the hash of the key, each with its own lock. Every
// operation is on one key and holds one lock for well under a microsecond; no operation
// calls out of the package while it holds one. Everything is safe for concurrent use.
//
// The table owns no memory of the pool. Operations that take an object away hand its
// extents back to the caller, who frees them after the lock is gone.
//
// What happened to objects is noted as events for the eviction policy, numbered in the
// order in which it happened, and handed out by Drain.
package objects

// Package master is the master of a pool: it knows the segments that nodes contribute, the
// objects that lie in them and the clients that are alive, decides where an object goes, and
// makes space when there is none.
//
// Service is the whole of it. It is what core/api serves and what core/store talks to; it
// does no network I/O itself. Its two plugins, an allocator and an eviction policy, may be
// subprocesses, so they get batches and are called without a lock of the object table.
//
// Each concern has a package of its own: objects (the sharded table), segments (what is mounted,
// which clients are alive), placement (which segments), space (allocator, quarantine, replay),
// evictor (policy, parking, replay), metrics, lease (time).
//
// Order of locks: the evictor's turn, then the pool's gate, then one shard of the table.
package master

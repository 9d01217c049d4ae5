// Package store is the client side of the pool, and the node that contributes memory.
//
// A Session is what a process has in common at the master: its ID and signs of life, what it
// saw of other nodes, and whether the master answers. While it does not, every call fails at
// once; while that is being found out, within MasterDownTimeout (guard.go, outage.go).
//
// A Client puts and gets. A put (put.go) asks the master for room, writes all parts of all
// copies in parallel and makes them readable only when every byte is in place. A get (get.go,
// read.go) asks where the copies are, reads the nearest one straight into the caller's memory,
// checks it, and goes on with the next copy when that fails. Package hotcache keeps what is
// read often.
//
// Layers (layers.go) are sessions of another kind, about one object each, for callers that move
// objects layer by layer: the master is asked at the start and at the end, and not by the calls
// between. For reading, layerget.go holds where the object lies, layerkeeper.go renews the lease in
// the background, and layerread.go reads by the path of a get; a lease that is lost is
// LeaseExpired, never bytes of another value. For writing, layerput.go gets room, layerwrite.go
// writes pieces in any order and layertiles.go puts their checksums together, and layerend.go makes
// readable what is complete and revokes the rest. layerkeeper.go ends the sessions that their
// callers left open. A put must be over before the master gives its memory to others, so its time
// counts from its start; one for reading lasts as long as it is used.
//
// A Node (node.go) mounts memory at start and at run time, gives it back with a grace, mounts
// again at a master that forgot it, and carries out the copies and moves that the master
// gives it (executor.go).
package store

// Package transport is the contract of transports: what moves bytes between the
// registered memory of two processes.
//
// One-sided: the side that submits an operation names a range of its own memory and a
// range of the peer's; the peer's application is not involved. A transport serves its
// peers from Start to Stop without being asked.
//
// How the pieces meet. A node registers its memory and publishes, through a directory
// that the transport knows nothing of, its Endpoint and one Key for each region. A peer
// dials the endpoint, imports the keys, and submits operations on what it imported.
// Endpoints and keys are opaque blobs of the transport that made them. An endpoint
// carries an incarnation: a process that was restarted has a new one, and operations
// with keys of the old one fail with ClassTransientPeer, never touch other memory.
//
// Units: offsets, lengths are bytes. Concurrency: every method of Transport and of Path
// is safe for concurrent use. Submit never blocks; Reap waits.
//
// Memory: the transport may touch the memory of a region from Register until Deregister
// returned, and Op.Local from Submit until the operation's completion was reaped. A
// completion is terminal: the transport does not touch the buffer any more. Where that
// cannot be proven the status is Quarantined.
//
// The package imports the standard library only.
package transport

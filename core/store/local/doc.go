// Package local is a client of the pool without transports of its own: it attaches to a
// process of the same host that has them (package serve) and shares memory with it. The
// transports read and write that memory where it lies; no byte of an object goes through a
// socket.
//
// Memory comes from an Allocator. Values in other memory are copied once, within this
// process, through a buffer of Config.LocalBufferSize.
//
// Layer-wise sessions (layers.go) are the service's, apart for each process, and end with the
// attachment; puts among them are revoked then.
//
// When the other process goes away, calls fail with RPCFail within Config.OutageWait, and
// the client attaches again by itself, with all its memory, as soon as the other process is
// back. Memory stays valid throughout. A call that touches memory returns only when
// the other process is proven to be done with it: it answered, or its end of the socket
// closed, which it does last and the kernel does when it dies. Where neither comes in time
// the error is transfer.ErrQuarantined.
package local

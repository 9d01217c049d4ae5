// Package verbs binds the RDMA verbs of libibverbs. The library is opened when Open is
// called, so a program that contains this package starts and runs where the library is
// absent; Open then returns an error for which errors.Is(err, ErrUnavailable) holds. A build
// without cgo has the same API, and every Open fails that way.
//
// # Objects
//
//	Lib -> Context -> PD -> MR
//	               |     -> QP (uses one CQ)
//	               -> CQ (with its own completion channel)
//
// Objects may be closed in any order: an object that others still use takes no new users
// and is freed with the last of them. Close may be repeated; one that failed is tried again by
// the next. There are no finalizers: an object that is not closed stays until the process ends.
//
// # Data path
//
// QP.Post hands a batch of work requests to the device and CQ.Poll fetches a batch of
// results. Each is one cgo call, whatever the number of requests, and allocates nothing. Only
// some of the requests are signalled, but every request that Post accepted has exactly one
// Result, in the order of posting within a QP. That holds also for requests that were flushed,
// and for those whose QP was closed before they ended. A CQ never overflows: the depths of its
// QPs together are at most its size.
//
// # Concurrency
//
// Everything may be called from any goroutine at the same time. Post locks its QP and Poll
// its CQ, so one goroutine for each gives the best speed. At most one goroutine at a time may
// be in CQ.Wait, and one in Context.NextEvent.
//
// # Memory
//
// The device reads and writes registered memory behind the back of the Go runtime, and knows it by
// addresses only. The caller that registers memory keeps it mapped and in place until MR.Close
// returned. An MR of PD.RegMR holds on to its slice, so memory of the Go heap, which does not
// move, is not collected before. Memory of a goroutine's stack moves and must not be registered; a
// slice that was passed to RegMR always escapes to the heap. For PD.RegRange and PD.RegDMABuf the
// caller alone is responsible. The race detector does not see what a device does: a Result is what
// orders the device's accesses before the caller's.
package verbs

// Package rdma is the transport over RDMA verbs: the devices move the bytes between the
// registered memory of two processes, and no processor of the peer takes part.
//
// Objects. A node has one device for each RDMA device of the machine, also for those that
// cannot be used, so that the numbers in keys keep their meaning. A link is a device of
// this side and one of a peer; it is what a path calls a rail. It keeps the operations that
// wait, and has at most one conn at a time: the queue pairs that carry them. A conn that
// failed is buried: its queue pairs go to the error state, what they had under way is
// collected, they are destroyed and never used again. The link makes another when there is
// work.
//
// Setting up. Nothing on the submit path waits: the first operation for a link starts a
// goroutine that exchanges one message each way with the peer's bootstrap listener, over
// TCP, and the operations wait in the link meanwhile. The TCP connection then stays open as
// a lifeline: when either process ends, the other side learns it at once, and frees its
// queue pairs. It is also how a side that gives up learns that the peer no longer stores
// anything. A conn between our own nodes carries the operations of the side that made it;
// one with a node of upstream carries both.
//
// When a Write is Quarantined. A Read that failed is over once its queue pair was flushed or
// destroyed: nothing else stores to its buffer. A Write is over when the peer refused it or
// told on the lifeline that its queue pairs are destroyed. Without that, because the peer
// does not answer within confirm_timeout or has no lifeline, a Write that was under way is
// Quarantined.
//
// What a failed conn does to others. Operations that were flushed because of the fault of
// another one (its key was withdrawn, its deadline passed) are carried out again on the
// next conn, once the old one is known to be quiet. Those flushed because the way to the
// peer is broken fail, so that the caller can choose another rail.
//
// Locks, in the order in which they are taken: path.mu, link.mu, and one of device.mu and
// node.mu. Nothing blocks while link.mu is held; posting work requests counts as not
// blocking.
package rdma

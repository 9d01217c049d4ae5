package tcp

import (
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/upstream"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// A node of upstream's release 0.3.9, or of one before, closes a connection after each request. A
// READ that follows a WRITE on the same connection gets no answer there, and a connection cannot be
// used again. The path learns that from a connection that the peer closes after its first request.
// From then on each request has a connection of its own. A WRITE is followed by the end of this
// direction, which peers that keep connections answer with the end of the other one as well. When
// that arrives, and the peer's machine has acknowledged every byte, its process has read them all:
// closing with unread bytes is a reset. A READ of the last byte, on the next connection, shows that
// the peer lives and has the address.

// learn notes that the peer closes a connection after each request. The caller holds path.mu.
func (p *path) learn() {
	p.closes = true
	for _, c := range p.conns {
		if c.spent() && !c.owed() {
			c.die(nil)
		}
	}
}

// spent reports whether the connection has carried the one request that the peer serves on it, or as much
// as its keys are good for. It ends once it owes nothing. The caller holds path.mu.
func (c *connection) spent() bool {
	return c.p.closes && c.serial > 0 || c.layer != nil && c.layer.Carried() >= c.p.n.maxCarried
}

// hasWork reports whether something waits for a connection. The caller holds path.mu.
func (p *path) hasWork() bool {
	for len(p.again) > 0 && p.again[0].op == nil { // Its operation has ended.
		p.freeChunks = append(p.freeChunks, p.again[0])
		p.again = p.again[1:]
	}
	return len(p.again) > 0 || p.queue.First() != nil
}

// sendAgain queues the chunk of a connection that the peer closed, with its next stage. It reports
// false where the request has failed. The caller holds path.mu.
func (c *connection) sendAgain(ch *chunk) bool {
	p := c.p
	if !c.closedUnder || ch.op == nil || ch.op.err != nil || ch.answered {
		return false
	}
	switch {
	case ch.stage == stageShared && (c.serial == 1 && ch.write || c.serial == 2):
		ch.stage = stageAlone
		p.learn()
	case ch.stage == stageAlone && ch.write && c.took:
		ch.stage = stageProof
	default:
		return false
	}
	ch.state = chunkWaiting
	p.again = append(p.again, ch)
	return true
}

// closedUpstream is what the end of a connection means that came in place of an answer. Version 1
// has no other way to reject an address, so that is an answer too, unless sendAgain finds a better
// explanation; either way the peer is to be looked up again.
func (c *connection) closedUpstream(got int, err error) error {
	orderly := errors.Is(err, io.EOF)
	if c.p.peer.Upstream != 1 || got > 0 || !orderly && !errors.Is(err, syscall.ECONNRESET) {
		return err
	}
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	switch ch := c.slots[0]; {
	case ch != nil:
		c.closedUnder = true
		c.took = orderly && c.moved() >= upstream.HeaderSize+uint64(ch.size)
	case c.serial == 1:
		c.p.learn()
	}
	if !orderly {
		return err
	}
	if c.owed() {
		c.proven = true
		c.p.retry.Answered()
	}
	return &errs.Error{
		Code: errs.TransferFail, Class: errs.ClassTransientPeer, Err: fmt.Errorf("the peer closed it without an answer: %w", err),
		Hint: "it ended, or has no such buffer (any more): fetch its descriptor again",
	}
}

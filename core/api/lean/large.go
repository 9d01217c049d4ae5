package lean

import (
	"context"
	"time"
)

// Budget bounds the memory of the large requests of all connections together. Safe for
// concurrent use.
type Budget interface {
	// Acquire waits for the memory of a request of n bytes, until ctx ends at the latest. The
	// caller of a request that it refuses is answered with its error.
	Acquire(ctx context.Context, n int) error
	// Release gives back what Acquire was given for n bytes.
	Release(n int)
}

const (
	// admission bounds the wait for a Budget where neither the server nor the caller bounds calls.
	admission = 30 * time.Second
	// slowest is the number of bytes a second with which a large request has to arrive.
	slowest = 1 << 20
)

// Arrival returns how long a large request may take to arrive, where stall is how long a peer may
// do nothing.
func Arrival(size int, stall time.Duration) time.Duration {
	return stall + time.Duration(size)*time.Second/slowest
}

// large takes a large request: it asks for memory, and leaves the connection unread meanwhile. An
// error ends the connection.
func (c *serverConn) large(h head) error {
	if h.kind != kindCall {
		return errFrame
	}
	size := c.in.rest
	refusal := c.acquire(h, size)
	// The connection ends where the request is not there in time, so that its memory is free.
	err := c.limitRead(time.Now().Add(Arrival(size, c.s.limits.Stall)))
	if err == nil && refusal != nil {
		err = c.in.skip()
	} else if err == nil {
		_, err = c.in.content()
	}
	if err == nil {
		err = c.limitRead(time.Time{}) // await sets its own.
	}
	if refusal != nil {
		if err == nil {
			j := &job{c: c, h: h}
			j.encode(nil, refusal)
			err = c.out.Send(j.out)
		}
		return err
	}
	if err != nil {
		c.s.Budget.Release(size)
		return err
	}
	j := takeJob()
	j.c, j.h, j.buf, j.counted = c, h, c.in.large, size
	c.in.take()
	if err := c.admit(j); err != nil {
		c.s.Budget.Release(size)
		return err
	}
	c.in.poll = false
	go j.run()
	return nil
}

// acquire asks for the memory of a request, for as long as its caller waits.
func (c *serverConn) acquire(h head, size int) error {
	limit := admission
	if c.s.limits.Call > 0 {
		limit = c.s.limits.Call
	}
	if h.millis > 0 {
		limit = min(limit, time.Duration(h.millis)*time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(c.s.taking, limit)
	defer cancel()
	return c.s.Budget.Acquire(ctx, size)
}

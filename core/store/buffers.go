package store

import (
	"context"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// RegisterBuffer makes memory known to the transports, so that puts from it and gets into
// it are moved without a copy by this program on every transport. It must stay in place
// until UnregisterBuffer returned. location is where it lives: "cpu:0", "cuda:1", "" for
// unknown. InvalidParams for empty memory or an overlap with what is registered.
func (c *Client) RegisterBuffer(ctx context.Context, mem []byte, location string) error {
	return c.RegisterMemory(ctx, transfer.Memory{Bytes: mem, FD: -1, Location: location})
}

// RegisterMemory is RegisterBuffer for memory that also has a file descriptor.
func (c *Client) RegisterMemory(ctx context.Context, m transfer.Memory) error {
	if err := c.enter(); err != nil {
		return err
	}
	defer c.calls.Done()
	id, err := c.engine.Register(ctx, m)
	if err != nil {
		return errs.Wrap(errs.CodeOf(err), "store: register buffer", err)
	}
	c.mu.Lock()
	closed := c.closed
	if !closed {
		c.buffers[memory.AddrOf(m.Bytes)] = id
	}
	c.mu.Unlock()
	if closed {
		_ = c.engine.Deregister(ctx, id) // Close did not see it.
		return errs.Wrap(errs.Internal, "store: register buffer", ErrClosed)
	}
	return nil
}

// UnregisterBuffer ends it, for memory that starts where a registered buffer does. On an
// error other than InvalidParams the memory must not be reused yet.
func (c *Client) UnregisterBuffer(ctx context.Context, mem []byte) error {
	addr := memory.AddrOf(mem)
	c.mu.Lock()
	id, ok := c.buffers[addr]
	delete(c.buffers, addr)
	c.mu.Unlock()
	if !ok {
		return errs.New(errs.InvalidParams, "store: unregister buffer", "no buffer is registered at %#x", addr)
	}
	return c.engine.Deregister(ctx, id)
}

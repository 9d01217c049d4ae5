package client

import (
	"context"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// RegisterBuffer implements store.Pool.
func (c *Client) RegisterBuffer(ctx context.Context, mem []byte, location string) error {
	return c.RegisterMemory(ctx, transfer.Memory{Bytes: mem, FD: -1, Location: location})
}

// RegisterMemory is RegisterBuffer for memory that also has a file descriptor.
func (c *Client) RegisterMemory(ctx context.Context, m transfer.Memory) error {
	const op = "store: register buffer"
	if err := c.b.Calls.Enter("store"); err != nil {
		return err
	}
	defer c.b.Calls.Leave()
	id, err := c.b.Engine.Register(ctx, m)
	if err != nil {
		return errs.Wrap(errs.CodeOf(err), op, err)
	}
	c.mu.Lock()
	closed := c.b.Calls.Closed() // Close takes the buffers after that, under mu.
	if !closed {
		c.buffers[memory.AddrOf(m.Bytes)] = id
	}
	c.mu.Unlock()
	if closed {
		_ = c.b.Engine.Deregister(ctx, id) // Close did not see it.
		return errs.Wrap(errs.Internal, op, store.ErrClosed)
	}
	return nil
}

// UnregisterBuffer implements store.Pool.
func (c *Client) UnregisterBuffer(ctx context.Context, mem []byte) error {
	addr := memory.AddrOf(mem)
	c.mu.Lock()
	id, ok := c.buffers[addr]
	delete(c.buffers, addr)
	c.mu.Unlock()
	if !ok {
		return errs.New(errs.InvalidParams, "store: unregister buffer", "no buffer is registered at %#x", addr)
	}
	return c.b.Engine.Deregister(ctx, id)
}

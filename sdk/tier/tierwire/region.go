package tierwire

import (
	"context"
	"errors"
	"unsafe"

	"github.com/mooncake-go/mooncake/sdk/errs"
	tierv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/tier/v1"
	"github.com/mooncake-go/mooncake/sdk/tier"
	"github.com/mooncake-go/mooncake/sdk/wire"
	"github.com/mooncake-go/mooncake/sdk/x/shm"
)

// Register implements tier.Tier. It returns InvalidParams, besides what the contract says, for a
// region whose memory is not that of a memory file that is sealed against shrinking.
func (t *Client) Register(ctx context.Context, r tier.Region) error {
	op := t.caller.ID + ": register"
	if err := t.usable("register"); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return wire.Lost(ctx, op, err)
	}
	handle := t.tokens.Add(1)
	t.mu.Lock()
	err := t.regions.Add(uint64(r.ID), r.Mem, handle, op)
	t.mu.Unlock()
	if err != nil {
		return err
	}
	if err := t.register(ctx, r, handle); err != nil {
		t.forget(r.ID, handle)
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.regions.Ready(uint64(r.ID), true)
	return nil
}

// register gives the memory to the plugin.
func (t *Client) register(ctx context.Context, r tier.Region, handle uint64) error {
	op := t.caller.ID + ": register"
	if r.FD < 0 {
		return errs.WithHint(errs.New(errs.InvalidParams, op, "the memory of region %d has no descriptor that could be given to the plugin's process", r.ID),
			"use memory that is shared (a memfd), or run the tier in process")
	}
	// This comes before the plugin gets the file: if the plugin truncated it, this process would die.
	if _, err := shm.CheckSealed(r.FD); err != nil {
		return errs.WithHint(errs.Wrap(errs.InvalidParams, op, err), "use a memory file that is sealed against shrinking (F_SEAL_SHRINK)")
	}
	sending, cancel := context.WithTimeout(ctx, t.caller.Timeout)
	defer cancel()
	if err := t.fds.Send(sending, handle, r.FD); err != nil {
		code := errs.RPCFail
		if errors.Is(err, context.DeadlineExceeded) {
			code = errs.RPCTimeout
		}
		return errs.Wrap(code, op, err)
	}
	_, err := wire.CallGiving(ctx, t.caller, max(wire.LifecycleTimeout, t.caller.Timeout), "register", t.rpc.Register, &tierv1.RegisterRequest{
		Token: handle, Addr: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(r.Mem)))), Bytes: uint64(len(r.Mem)), Offset: r.FDOffset,
	}, func(ctx context.Context, _ *tierv1.RegisterResponse) {
		_, _ = wire.Call(ctx, t.caller, "deregister", t.rpc.Deregister, &tierv1.DeregisterRequest{Token: handle})
	})
	return err
}

// forget removes a region, unless its ID names another one by now.
func (t *Client) forget(id tier.RegionID, handle uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now, known := t.regions.Handle(uint64(id)); known && now == handle {
		t.regions.Remove(uint64(id))
	}
}

// Deregister implements tier.Tier. It succeeds if the process has ended and was waited for.
func (t *Client) Deregister(ctx context.Context, id tier.RegionID) error {
	op := t.caller.ID + ": deregister"
	t.mu.Lock()
	if err := t.usableLocked("deregister"); err != nil && (!t.gone || t.state != running) {
		t.mu.Unlock()
		return err
	}
	handle, known := t.regions.Ready(uint64(id), false)
	t.mu.Unlock()
	if !known {
		return errs.New(errs.InvalidParams, op, "region %d is not registered", id)
	}
	err := t.unused(ctx, handle)
	if err == nil && !t.isGone() {
		_, err = wire.CallWithin(ctx, t.caller, slowCall, "deregister", t.rpc.Deregister, &tierv1.DeregisterRequest{Token: handle})
	}
	if err != nil && !t.isGone() {
		return errs.WithHint(err, "the memory of region %d must not be used for anything else yet; deregister it again, or end the process", id)
	}
	t.forget(id, handle)
	return nil
}

// unused waits until no operation on a region is in flight.
func (t *Client) unused(ctx context.Context, handle uint64) error {
	for {
		t.mu.Lock()
		n, news := t.users[handle], t.news
		t.mu.Unlock()
		if n == 0 {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return errs.New(errs.RPCTimeout, t.caller.ID+": deregister", "%d parts of operations in flight use the region: %w", n, ctx.Err())
		}
	}
}

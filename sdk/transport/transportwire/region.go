package transportwire

import (
	"context"
	"unsafe"

	"github.com/mooncake-go/mooncake/sdk/errs"
	transportv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/transport/v1"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/transportwire/internal/datapath"
	"github.com/mooncake-go/mooncake/sdk/wire"
	"github.com/mooncake-go/mooncake/sdk/x/shm"
)

// Register implements transport.Transport. It returns NotSupported for a region without a
// descriptor that is open to peers, or that the plugin cannot reach, and for one with a guard, which
// the plugin could not ask.
func (t *Client) Register(ctx context.Context, r transport.Region) (transport.Key, error) {
	op := t.caller.ID + ": register"
	if err := t.usable("register"); err != nil {
		return nil, err
	}
	book, err := t.bookOf(&r, op)
	if err != nil {
		return nil, err
	}
	if r.Guard != nil {
		return nil, errs.New(errs.NotSupported, op, "a transport in a process of its own does not ask the guard of region %d", r.ID)
	}
	if r.Access&^transport.AccessRemote != 0 {
		return nil, errs.New(errs.InvalidParams, op, "region %d asks for unknown access %#x", r.ID, r.Access)
	}
	if r.FD < 0 {
		return nil, t.registerForeign(ctx, r)
	}
	// This comes before the plugin gets the file: if the plugin truncated it, this process would
	// die.
	if _, err := shm.CheckSealed(r.FD); err != nil {
		return nil, errs.WithHint(errs.Wrap(errs.InvalidParams, op, err), "use a memory file that is sealed against shrinking (F_SEAL_SHRINK)")
	}
	handle := t.tokens.Add(1)
	if err := t.host.Add(uint64(r.ID), r.Mem, handle, op); err != nil {
		return nil, err
	}
	var grants *transportv1.Grants
	var changed <-chan struct{}
	if book != nil {
		grants, changed = export(book)
	}
	m, err := t.register(ctx, r, handle, grants)
	if err != nil {
		t.host.Remove(uint64(r.ID))
		return nil, err
	}
	t.host.Ready(uint64(r.ID), true)
	if book != nil {
		t.allow(ctx, r.ID, book, changed)
	}
	if m.GetElsewhere() {
		t.mu.Lock()
		t.elsewhere++
		t.mu.Unlock()
	}
	return m.GetKey(), nil
}

func (t *Client) register(ctx context.Context, r transport.Region, handle uint64, grants *transportv1.Grants) (*transportv1.RegisterResponse, error) {
	if err := t.handOver(ctx, "register", handle, r.FD); err != nil {
		return nil, err
	}
	m, err := wire.CallGiving(ctx, t.caller, t.patience(), "register", t.rpc.Register, &transportv1.RegisterRequest{
		Token: handle, Region: uint64(r.ID), Addr: addr(r.Mem), Bytes: uint64(len(r.Mem)), Offset: r.FDOffset,
		Location: r.Location, Access: uint32(r.Access), Grants: grants,
	}, func(ctx context.Context, _ *transportv1.RegisterResponse) {
		_, _ = wire.CallWithin(ctx, t.caller, t.patience(), "deregister", t.rpc.Deregister, &transportv1.DeregisterRequest{Region: uint64(r.ID)})
	})
	if err == nil && (len(m.GetKey()) == 0 || len(m.GetKey()) > maxBlob) {
		return nil, t.garbage("register", errs.New(errs.InvalidKey, "", "a key of %d bytes", len(m.GetKey())))
	}
	return m, err
}

// registerForeign registers memory that has no descriptor.
func (t *Client) registerForeign(ctx context.Context, r transport.Region) error {
	op := t.caller.ID + ": register"
	if r.Access&transport.AccessRemote != 0 {
		return errs.WithHint(errs.New(errs.NotSupported, op, "region %d is open to peers, but its memory has no descriptor that could be given to the plugin's process", r.ID),
			"use memory that is shared (a memfd), or run the transport in process")
	}
	if err := t.host.Add(uint64(r.ID), r.Mem, 0, op); err != nil {
		return err
	}
	if err := t.share(ctx); err != nil {
		t.host.Remove(uint64(r.ID))
		return err
	}
	t.host.Ready(uint64(r.ID), true)
	return nil
}

// Deregister implements transport.Transport. It succeeds if the process has ended and was waited
// for.
func (t *Client) Deregister(ctx context.Context, id transport.RegionID) error {
	handle, known := t.host.Ready(uint64(id), false)
	if !known {
		return errs.New(errs.InvalidParams, t.caller.ID+": deregister", "region %d is not registered", id)
	}
	t.forbid(id)
	if handle != 0 && !t.host.Gone() && !t.hasStopped() {
		err := t.withdraw(ctx, id)
		if err != nil && !t.host.Gone() {
			return errs.WithHint(errs.WithClass(errs.ClassLocalDevice, "", err),
				"the memory of region %d must not be used for anything else yet; deregister it again, or end the process", id)
		}
	}
	t.host.Remove(uint64(id))
	return nil
}

// leave is a Deregister call to the plugin.
type leave struct {
	over chan struct{} // closed when the plugin has answered
	err  error
}

// withdraw tells the plugin to deregister a region. The call continues after ctx ends, because
// peers must find the region closed. A caller that repeats it gets the answer of the earlier call.
func (t *Client) withdraw(ctx context.Context, id transport.RegionID) error {
	t.mu.Lock()
	l := t.leaving[id]
	if l == nil {
		l = &leave{over: make(chan struct{})}
		t.leaving[id] = l
		go func() { // Bounded by t.patience.
			defer close(l.over)
			_, l.err = wire.CallWithin(context.WithoutCancel(ctx), t.caller, t.patience(), "deregister", t.rpc.Deregister, &transportv1.DeregisterRequest{Region: uint64(id)})
		}()
	}
	t.mu.Unlock()
	select {
	case <-l.over:
	case <-ctx.Done():
		return wire.Lost(ctx, t.caller.ID+": deregister", ctx.Err())
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.leaving[id] == l {
		delete(t.leaving, id)
	}
	return l.err
}

// hasStopped reports whether the plugin has confirmed its stop: then it holds no regions.
func (t *Client) hasStopped() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.quiet
}

// share makes the stage, through which foreign memory goes, once.
func (t *Client) share(ctx context.Context) error {
	op := t.caller.ID + ": memory without a descriptor"
	t.mu.Lock()
	way := t.way()
	t.mu.Unlock()
	if way == datapath.WayRefused {
		return errs.WithHint(errs.New(errs.NotSupported, op, "the plugin cannot be given it"),
			"use memory that is shared (a memfd), or run the transport in process")
	}
	select {
	case <-t.sharing:
	case <-ctx.Done():
		return wire.Lost(ctx, op, ctx.Err())
	}
	defer func() { t.sharing <- struct{}{} }()
	if t.stage != nil {
		return nil
	}
	mem, err := shm.Create("mooncake stage "+t.caller.ID, t.o.Staging)
	if err != nil {
		return errs.WithClass(errs.ClassLocalDevice, op, err)
	}
	token, err := t.hand(ctx, "share", mem.FD())
	if err == nil {
		_, err = wire.CallWithin(ctx, t.caller, t.patience(), "share", t.rpc.Share, &transportv1.ShareRequest{Token: token, Bytes: uint64(t.o.Staging)})
	}
	if err != nil {
		_ = mem.Close()
		return err
	}
	t.stage = mem
	t.host.SetStage(mem.Bytes(), way)
	return nil
}

// way returns how the plugin reaches foreign memory. mu is held.
func (t *Client) way() datapath.Way {
	switch {
	case t.o.Foreign == ForeignRefuse || t.manifest.Has(transport.CapNoForeign) || (t.o.Foreign == ForeignVM && !t.vm):
		return datapath.WayRefused
	case t.o.Foreign != ForeignStaging && t.vm:
		return datapath.WayVM
	}
	return datapath.WayStaging
}

// unshare frees the stage once no path uses it any more.
func (t *Client) unshare() {
	if len(t.host.Paths()) > 0 {
		return
	}
	<-t.sharing
	defer func() { t.sharing <- struct{}{} }()
	if t.stage != nil {
		_ = t.stage.Close()
		t.stage = nil
	}
}

func encodeProbe(nonce, answer []byte) *transportv1.Probe {
	return &transportv1.Probe{Pid: pid(), NonceAddr: addr(nonce), NonceBytes: uint32(len(nonce)), AnswerAddr: addr(answer)}
}

func addr(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

package node

import (
	"context"
	"errors"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/internal/fragment"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

// copyBuffer bounds the memory of one copy, in bytes.
const copyBuffer = 16 << 20

// copy is copyAt of a copy or move that any master has assigned.
func (t *taskRunner) copy(ctx context.Context, a *model.Assignment) error {
	return t.copyAt(ctx, t.master, a)
}

// copyAt carries out one copy or move at a master. It compares what it read with the object's checksum before the
// new replicas become readable, so that damage does not spread.
func (t *taskRunner) copyAt(ctx context.Context, m store.Master, a *model.Assignment) error {
	spec := &a.Spec
	caller := model.Caller{Client: t.session.ID(), Tenant: spec.Tenant}
	op := "store node: " + spec.Kind.String() + " " + store.Quote(spec.Key)
	what := object{spec.Tenant, spec.Key}
	if !t.claim(what) {
		return errs.WithHint(errs.New(errs.ObjectHasReplicationTask, op, "this node is at another copy of it"), "try again when that is over")
	}
	defer t.unclaim(what)
	var plan model.CopyPlan
	err := t.masterDo(ctx, m, "CopyStart", func(ctx context.Context, m store.Master) (err error) {
		plan, err = m.CopyStart(ctx, caller, spec.Kind, spec.Key, spec.Source, spec.Targets)
		return err
	})
	if err != nil {
		return errs.Wrap(errs.CodeOf(err), op, err)
	}
	moved := t.move(ctx, &plan)
	if errors.Is(moved, transfer.ErrQuarantined) {
		// A peer may still write to the targets. The master quarantines them until its timeout.
		return errs.Wrap(errs.TransferFail, op, moved)
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	name, call := "CopyEnd", store.Master.CopyEnd
	if moved != nil {
		name, call = "CopyRevoke", store.Master.CopyRevoke
	}
	err = t.masterDo(end, m, name, func(ctx context.Context, m store.Master) error { return call(m, ctx, caller, spec.Kind, spec.Key) })
	if moved != nil {
		err = moved
	}
	return errs.Wrap(errs.CodeOf(err), op, err)
}

// move copies the bytes of an object from its source to all targets, one buffer after the other.
func (t *taskRunner) move(ctx context.Context, plan *model.CopyPlan) error {
	size := plan.Source.Bytes()
	if len(plan.Targets) == 0 {
		return nil
	}
	for i := range plan.Targets {
		if n := plan.Targets[i].Bytes(); n != size {
			return errs.New(errs.InvalidReplica, "", "the master gave %d bytes of space for %d", n, size)
		}
	}
	if onTier(plan) {
		return t.moveWhole(ctx, plan)
	}
	deadline, _ := ctx.Deadline()
	buf := make([]byte, min(size, copyBuffer))
	checksum := uint32(0)
	for off := uint64(0); off < size; off += uint64(len(buf)) {
		buf = buf[:min(size-off, copyBuffer)]
		value := []store.Fragment{{Offset: off, Mem: buf}}
		in := fragment.Requests(nil, transport.Read, value, &plan.Source, deadline, true)
		read, err := t.transfer(ctx, in)
		if err != nil {
			return err
		}
		c, ok := fragment.ChecksumOfTransfer(in, read)
		if !ok {
			c = crc32c.SumParallel(buf)
		}
		checksum = crc32c.Combine(checksum, c, uint64(len(buf)))
		var out []transfer.Request
		for i := range plan.Targets {
			out = fragment.Requests(out, transport.Write, value, &plan.Targets[i], deadline, false)
		}
		if _, err := t.transfer(ctx, out); err != nil {
			return err
		}
		t.bytes.Add(float64(len(buf)))
	}
	return t.verify(plan, checksum)
}

// verify compares the checksum of what was read with that of the object.
func (t *taskRunner) verify(plan *model.CopyPlan, checksum uint32) error {
	if !plan.Checksum.CRC32C() || uint64(checksum) == plan.Checksum.Value {
		return nil
	}
	t.mismatches.Inc()
	return errs.New(errs.ChecksumMismatch, "", "the replica on %s has the checksum %08x, not %08x: it is damaged and was not copied",
		plan.Source.Endpoint, checksum, plan.Checksum.Value)
}

// transfer carries out requests and returns the error that fragment.Outcome chooses.
func (t *taskRunner) transfer(ctx context.Context, reqs []transfer.Request) ([]transfer.Result, error) {
	t0 := time.Now()
	results := t.session.Transfer(ctx, t.engine, reqs, nil)
	if res := fragment.Outcome(results); res.Err != nil {
		return nil, errs.Wrap(errs.TransferFail, "after "+time.Since(t0).Round(time.Millisecond).String(), res.Err)
	}
	return results, nil
}

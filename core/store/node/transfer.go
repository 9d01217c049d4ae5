package node

import (
	"context"
	"errors"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/internal/fragment"
	"github.com/mooncake-go/mooncake/core/store/session"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

// copyBuffer bounds the memory of one copy, in bytes.
const copyBuffer = 16 << 20

// copy carries out one copy or move. It compares what it read with the object's checksum before the
// new replicas become readable, so that damage does not spread.
func (t *taskRunner) copy(ctx context.Context, a *model.Assignment) error {
	spec := &a.Spec
	caller := model.Caller{Client: t.session.ID(), Tenant: spec.Tenant}
	op := "store node: " + spec.Kind.String() + " " + store.Quote(spec.Key)
	what := object{spec.Tenant, spec.Key}
	if !t.claim(what) {
		return errs.WithHint(errs.New(errs.ObjectHasReplicationTask, op, "this node is at another copy of it"), "try again when that is over")
	}
	defer t.unclaim(what)
	plan, err := session.Ask(ctx, t.session, "CopyStart", func(ctx context.Context) (model.CopyPlan, error) {
		return t.master.CopyStart(ctx, caller, spec.Kind, spec.Key, spec.Source, spec.Targets)
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
	name, call := "CopyEnd", t.master.CopyEnd
	if moved != nil {
		name, call = "CopyRevoke", t.master.CopyRevoke
	}
	err = session.Do(end, t.session, name, func(ctx context.Context) error { return call(ctx, caller, spec.Kind, spec.Key) })
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
	if plan.Checksum.Kind == model.ChecksumCRC32C && uint64(checksum) != plan.Checksum.Value {
		t.mismatches.Inc()
		return errs.New(errs.ChecksumMismatch, "", "the replica on %s has the checksum %08x, not %08x: it is damaged and was not copied",
			plan.Source.Endpoint, checksum, plan.Checksum.Value)
	}
	return nil
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

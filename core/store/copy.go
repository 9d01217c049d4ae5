package store

import (
	"context"
	"errors"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

// copyChunk is how much of an object a copy holds in memory at a time, in bytes.
const copyChunk = 16 << 20

// copy carries out one copy or move. What was read is compared with the object's checksum
// before the new copies become readable, so that damage does not spread.
func (x *executor) copy(ctx context.Context, a *model.Assignment) error {
	spec := &a.Spec
	caller := model.Caller{Client: x.session.id, Tenant: spec.Tenant}
	op := "store node: " + spec.Kind.String() + " " + quote(spec.Key)
	what := object{spec.Tenant, spec.Key}
	if !x.enter(what) {
		return errs.WithHint(errs.New(errs.ObjectHasReplicationTask, op, "this node is at another copy of it"), "try again when that is over")
	}
	defer x.leave(what)
	plan, err := ask(ctx, x.session, "CopyStart", func(ctx context.Context) (model.CopyPlan, error) {
		return x.master.CopyStart(ctx, caller, spec.Kind, spec.Key, spec.Source, spec.Targets)
	})
	if err != nil {
		return errs.Wrap(errs.CodeOf(err), op, err)
	}
	moved := x.bytes(ctx, &plan)
	if errors.Is(moved, transfer.ErrQuarantined) {
		// Somebody may still write there: the master's timeout is made for that.
		return errs.Wrap(errs.TransferFail, op, moved)
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	name, call := "CopyEnd", x.master.CopyEnd
	if moved != nil {
		name, call = "CopyRevoke", x.master.CopyRevoke
	}
	err = asked(end, x.session, name, func(ctx context.Context) error { return call(ctx, caller, spec.Kind, spec.Key) })
	if moved != nil {
		return errs.Wrap(errs.CodeOf(moved), op, moved)
	}
	return errs.Wrap(errs.CodeOf(err), op, err)
}

// bytes moves an object from its source to all targets, chunk by chunk.
func (x *executor) bytes(ctx context.Context, plan *model.CopyPlan) error {
	size := plan.Source.Bytes()
	if len(plan.Targets) == 0 {
		return nil
	}
	for i := range plan.Targets {
		if n := plan.Targets[i].Bytes(); n != size {
			return errs.New(errs.InvalidReplica, "", "the master gave %d bytes of room for %d", n, size)
		}
	}
	deadline, _ := ctx.Deadline()
	buf := make([]byte, min(size, copyChunk))
	sum := uint32(0)
	for off := uint64(0); off < size; off += uint64(len(buf)) {
		buf = buf[:min(size-off, copyChunk)]
		spans := []span{{off, buf}}
		in := requests(nil, transport.Read, spans, &plan.Source, deadline, true)
		moved, err := x.all(ctx, in)
		if err != nil {
			return err
		}
		part, ok := sumOfMoved(in, moved)
		if !ok {
			part = crc32c.SumParallel(buf)
		}
		sum = crc32c.Combine(sum, part, uint64(len(buf)))
		var out []transfer.Request
		for i := range plan.Targets {
			out = requests(out, transport.Write, spans, &plan.Targets[i], deadline, false)
		}
		if _, err := x.all(ctx, out); err != nil {
			return err
		}
		x.metrics.bytes.Add(float64(len(buf)))
	}
	if plan.Checksum.Kind == model.ChecksumCRC32C && uint64(sum) != plan.Checksum.Value {
		x.metrics.mismatches.Inc()
		return errs.New(errs.ChecksumMismatch, "", "the copy on %s has the checksum %08x, not %08x: it is damaged and was not copied",
			plan.Source.Endpoint, sum, plan.Checksum.Value)
	}
	return nil
}

// all carries out requests; the first error counts, before all one that says that memory may
// still be touched.
func (x *executor) all(ctx context.Context, reqs []transfer.Request) ([]transfer.Result, error) {
	t0 := time.Now()
	results := x.session.move(ctx, x.engine, reqs, nil)
	if res := joined(results); res.Err != nil {
		return nil, errs.Wrap(errs.TransferFail, "after "+time.Since(t0).Round(time.Millisecond).String(), res.Err)
	}
	return results, nil
}

package node

import (
	"context"
	"errors"
	"slices"

	"github.com/mooncake-go/mooncake/core/ledger"
	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/internal/fragment"
	disk "github.com/mooncake-go/mooncake/core/tier"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

// onTier reports whether a replica of a plan lies on a storage tier.
func onTier(plan *model.CopyPlan) bool {
	return plan.Source.OnTier() || slices.ContainsFunc(plan.Targets, func(r model.Replica) bool { return r.OnTier() })
}

// moveWhole copies an object from or to storage tiers of this node, through one buffer of staging memory.
func (t *taskRunner) moveWhole(ctx context.Context, plan *model.CopyPlan) error {
	buf, err := t.staging.get(ctx, int(plan.Source.Bytes()))
	if err != nil {
		return err
	}
	kept := false
	defer func() {
		if !kept {
			buf.Release()
		}
	}()
	if kept, err = t.readWhole(ctx, plan, buf); err != nil {
		return err
	}
	deadline, _ := ctx.Deadline()
	for i := range plan.Targets {
		r := &plan.Targets[i]
		if r.OnTier() {
			var d *disk.Disk
			if d, err = t.diskOf(&r.Part); err == nil {
				kept, err = d.Write(ctx, ledger.Put(r.ID), plan.Checksum, buf)
			}
		} else {
			value := []store.Fragment{{Mem: buf.Bytes()}}
			_, err = t.transfer(ctx, fragment.Requests(nil, transport.Write, value, r, deadline, false))
			kept = errors.Is(err, transfer.ErrQuarantined)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readWhole reads the source of a plan and verifies it.
func (t *taskRunner) readWhole(ctx context.Context, plan *model.CopyPlan, buf *memory.Buffer) (kept bool, err error) {
	if plan.Source.OnTier() {
		d, err := t.diskOf(&plan.Source.Part)
		if err != nil {
			return false, err
		}
		return d.Read(ctx, ledger.Put(plan.Source.ID), 0, 0, buf)
	}
	deadline, _ := ctx.Deadline()
	in := fragment.Requests(nil, transport.Read, []store.Fragment{{Mem: buf.Bytes()}}, &plan.Source, deadline, true)
	got, err := t.transfer(ctx, in)
	if err != nil {
		return errors.Is(err, transfer.ErrQuarantined), err
	}
	t.bytes.Add(float64(len(buf.Bytes())))
	sum, ok := fragment.ChecksumOfTransfer(in, got)
	if !ok {
		sum = crc32c.SumParallel(buf.Bytes())
	}
	return false, t.verify(plan, sum)
}

// diskOf returns the tier of this node on which a part lies.
func (t *taskRunner) diskOf(p *model.Part) (*disk.Disk, error) {
	if x := t.tierOf(p.SegmentID); x != nil && x.disk != nil {
		return x.disk, nil
	}
	return nil, errs.New(errs.NotSupported, "", "segment %s is a storage tier of another node, which copies to and from it", p.Segment)
}

package node

import (
	"context"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/ledger"
	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

const (
	// stageTimeout bounds the reads of a caller without a deadline.
	stageTimeout = 5 * time.Second
)

// Stage reads parts of copies on the tiers of this node into memory that peers reach. Every part fails for itself. It is
// bounded by ctx, or by a few seconds.
func (n *Node) Stage(ctx context.Context, reads []model.StageRead) (model.Staging, error) {
	const op = "store node: stage"
	if !n.cfg.Tiers.enabled() {
		return model.Staging{}, errs.New(errs.NotSupported, op, "this node has no storage tiers")
	}
	if !n.staging.enter(len(reads)) {
		return model.Staging{}, errs.WithHint(errs.New(errs.UnavailableInCurrentStatus, op, "its storage tiers are busy with %d reads", maxStageReads), "read another replica, or try again")
	}
	defer n.staging.leave(len(reads))
	ctx, cancel := context.WithTimeout(ctx, stageTimeout)
	defer cancel()
	out := model.Staging{TTL: n.cfg.Tiers.StagingTTL, Parts: make([]model.Result[model.Part], len(reads))}
	buffers, t0 := make([]*memory.Buffer, len(reads)), time.Now()
	var all sync.WaitGroup
	for i := range reads {
		before := uint64(0) // Readers name the objects of a prompt in its order.
		if i > 0 && reads[i-1].Segment == reads[i].Segment {
			before = reads[i-1].Replica
		}
		all.Go(func() { buffers[i], out.Parts[i].Value, out.Parts[i].Err = n.stage(ctx, &reads[i], ledger.Put(before)) })
	}
	all.Wait()
	var lent []*memory.Buffer
	bytes := uint64(0)
	for i, b := range buffers {
		if b != nil {
			lent, bytes = append(lent, b), bytes+reads[i].Length
		}
	}
	n.saves.ssd.done(&n.saves.ssd.read, len(lent), bytes, t0)
	if len(lent) > 0 {
		out.ID = n.staging.keep(lent, n.cfg.Tiers.StagingTTL)
	}
	return out, nil
}

// stage carries out one read.
func (n *Node) stage(ctx context.Context, r *model.StageRead, before ledger.Put) (*memory.Buffer, model.Part, error) {
	s := n.segmentOf(r.Segment)
	if s == nil || s.tier == nil {
		return nil, model.Part{}, errs.New(errs.ObjectNotFound, "", "segment %s is no storage tier of this node", r.Segment)
	}
	if r.Length == 0 || r.Length > n.cfg.Tiers.Staging {
		return nil, model.Part{}, errs.New(errs.InvalidParams, "", "%d bytes are asked for, of a staging memory of %d", r.Length, n.cfg.Tiers.Staging)
	}
	if s.tier.hung.Load() {
		return nil, model.Part{}, errs.WithHint(errs.New(errs.UnavailableInCurrentStatus, "", "the storage of tier %s does not answer", s.tier.Name), "check the disk")
	}
	buf, ok := n.staging.pool.TryGet(int(r.Length))
	if !ok {
		return nil, model.Part{}, errs.WithHint(errs.New(errs.UnavailableInCurrentStatus, "", "the staging memory is in use"), "raise it, or read less at once")
	}
	kept, err := s.tier.disk.Read(ctx, ledger.Put(r.Replica), before, r.Offset, buf)
	if err != nil {
		if !kept {
			buf.Release()
		}
		if lostBy(err) {
			n.saves.suspect(s, ledger.Put(r.Replica))
		}
		return nil, model.Part{}, err
	}
	n.saves.hit(s, ledger.Put(r.Replica))
	name := n.engine.LocalName()
	return buf, model.Part{Segment: name, Endpoint: name, Protocol: n.cfg.Protocol, Address: memory.AddrOf(buf.Bytes()), Size: r.Length,
		Permit: n.staging.permit(ctx, buf.Bytes()[:r.Length], n.clocks.now()+n.cfg.Tiers.StagingTTL)}, nil
}

// Release drops what a call of Stage has read. What is dropped already is ignored.
func (n *Node) Release(_ context.Context, id uint64) error {
	n.staging.drop(id)
	return nil
}

// lostBy reports whether a read says that the record is gone or damaged.
func lostBy(err error) bool {
	switch errs.CodeOf(err) {
	case errs.ObjectNotFound, errs.ChecksumMismatch:
		return true
	case errs.FileReadFail:
		return errs.ClassOf(err) == errs.ClassPermanent
	}
	return false
}

package get

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/internal/boottime"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store/client/internal/base"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

const (
	// maxStageBytes and maxStageReads bound one call of Stage. A read of more bytes has a call of its own.
	maxStageBytes, maxStageReads = 16 << 20, 256
	// maxStageCalls and maxWaveBytes bound one wave.
	maxStageCalls, maxWaveBytes = 4, 32 << 20
	// stageTimeout bounds a call of Stage.
	stageTimeout = 10 * time.Second
)

// wave is what nodes stage at the same time for one read.
type wave struct {
	calls []stageCall
	bytes uint64
	done  sync.WaitGroup // the calls
	freed sync.WaitGroup // the calls that free what was staged
}

// stageCall is one call of Stage.
type stageCall struct {
	endpoint string
	items    []*Item
	reads    []model.StageRead
	bytes    uint64
	asked    time.Time // by boottime.Time
	got      model.Staging
	err      error
}

// stageRead returns what has to be staged of an item: from the first to the last byte that it reads.
func stageRead(it *Item) model.StageRead {
	fs := it.fragments
	if it.cover.parts != nil {
		fs = it.cover.parts
	}
	lo, hi := it.object.Size, uint64(0)
	for i := range fs {
		lo, hi = min(lo, fs[i].Offset), max(hi, fs[i].Offset+uint64(len(fs[i].Mem)))
	}
	at := it.replica()
	return model.StageRead{Segment: at.SegmentID, Replica: at.ID, Size: it.object.Size, Offset: lo, Length: hi - lo}
}

// add takes an item into the wave if there is space for it.
func (w *wave) add(it *Item) bool {
	read, endpoint := stageRead(it), it.replica().Endpoint
	if w.bytes > 0 && w.bytes+read.Length > maxWaveBytes {
		return false
	}
	i := slices.IndexFunc(w.calls, func(s stageCall) bool {
		return s.endpoint == endpoint && len(s.reads) < maxStageReads && s.bytes+read.Length <= maxStageBytes
	})
	if i < 0 {
		if len(w.calls) == maxStageCalls {
			return false
		}
		i = len(w.calls)
		w.calls = append(w.calls, stageCall{endpoint: endpoint})
	}
	s := &w.calls[i]
	s.items, s.reads = append(s.items, it), append(s.reads, read)
	s.bytes += read.Length
	w.bytes += read.Length
	return true
}

// do makes the call.
func (s *stageCall) do(ctx context.Context, b *base.Base, deadline time.Time) {
	ctx, cancel := context.WithTimeout(ctx, stageTimeout)
	defer cancel()
	if !deadline.IsZero() {
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	b.Metrics.StageCalls.Add(1)
	s.asked = boottime.Time()
	s.got, s.err = b.Tiers.Stage(ctx, s.endpoint, s.reads)
	s.err = base.Complete(s.err, len(s.got.Parts), len(s.reads))
}

// place returns where the bytes of a read are.
func (s *stageCall) place(i int) (staged, error) {
	switch {
	case s.err != nil:
		return staged{}, s.err
	case s.got.Parts[i].Err != nil:
		return staged{}, errs.Wrap(errs.CodeOf(s.got.Parts[i].Err), "storage tier at "+s.endpoint, s.got.Parts[i].Err)
	}
	read, p := &s.reads[i], s.got.Parts[i].Value
	p.Address -= read.Offset
	p.Size += read.Offset
	return staged{at: model.Replica{ID: read.Replica, Part: p}, expires: s.asked.Add(s.got.TTL)}, nil
}

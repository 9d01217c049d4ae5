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
	// maxStageBytes and maxStageReads bound one call of Stage.
	maxStageBytes, maxStageReads = 16 << 20, 256
	// maxStageCalls and maxWaveBytes bound one wave.
	maxStageCalls, maxWaveBytes = 4, 32 << 20
	// stageTimeout bounds a call of Stage.
	stageTimeout = 10 * time.Second
)

// wave is what nodes stage at the same time for one read.
type wave struct {
	calls  []stageCall
	bytes  uint64
	beside *wave          // the one that is transferred meanwhile, nil for none
	done   sync.WaitGroup // the calls
	freed  sync.WaitGroup // the calls that free what was staged
}

// stageCall is one call of Stage.
type stageCall struct {
	endpoint string
	steps    []*step
	reads    []model.StageRead
	bytes    uint64
	asked    time.Time // by boottime.Time
	got      model.Staging
	err      error
}

// add takes steps of an item into the wave, as far as there is space for them.
func (w *wave) add(it *Item) {
	for i := range it.steps {
		if s := &it.steps[i]; s.state == stepWanted && !w.take(s) {
			return
		}
	}
}

// take takes a step into the wave if there is space for it.
func (w *wave) take(s *step) bool {
	at, n := s.item.replica(), s.hi-s.lo
	if w.bytes > 0 && w.bytes+n > maxWaveBytes {
		return false
	}
	i := slices.IndexFunc(w.calls, func(k stageCall) bool {
		return k.endpoint == at.Endpoint && len(k.reads) < maxStageReads && k.bytes+n <= maxStageBytes
	})
	if i < 0 {
		if len(w.calls) == maxStageCalls {
			return false
		}
		i = len(w.calls)
		w.calls = append(w.calls, stageCall{endpoint: at.Endpoint})
	}
	k := &w.calls[i]
	k.steps = append(k.steps, s)
	k.reads = append(k.reads, model.StageRead{Segment: at.SegmentID, Replica: at.ID, Size: s.item.object.Size, Offset: s.lo, Length: n})
	k.bytes += n
	w.bytes += n
	s.state = stepAsked
	return true
}

// land marks the steps that were staged, and those that were not.
func (w *wave) land() {
	for k := range w.calls {
		call := &w.calls[k]
		for i, s := range call.steps {
			at, expires, err := call.place(i)
			switch {
			case err == nil:
				s.state, s.at, s.expires = stepStaged, at, expires
			case errs.Is(err, errs.UnavailableInCurrentStatus) && (w.held(call.endpoint) || w.beside.held(call.endpoint)):
				s.state = stepWanted // This read itself may have occupied the memory of the node.
			default:
				s.state, s.err = stepWanted, err
			}
		}
	}
	w.beside = nil
}

// held reports whether a node has staged something of the wave.
func (w *wave) held(endpoint string) bool {
	return w != nil && slices.ContainsFunc(w.calls, func(k stageCall) bool { return k.endpoint == endpoint && k.held() })
}

// held reports whether the node has staged something.
func (s *stageCall) held() bool {
	return s.err == nil && slices.ContainsFunc(s.got.Parts, func(p model.Result[model.Part]) bool { return p.Err == nil })
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

// place returns where byte 0 of the object of a read would be, and until when the node keeps the bytes.
func (s *stageCall) place(i int) (at model.Replica, expires time.Time, err error) {
	if err = s.err; err == nil {
		if err = s.got.Parts[i].Err; err != nil {
			err = errs.Wrap(errs.CodeOf(err), "storage tier at "+s.endpoint, err)
		}
	}
	if err != nil {
		return at, expires, err
	}
	read, p := &s.reads[i], s.got.Parts[i].Value
	p.Address -= read.Offset
	p.Size += read.Offset
	return model.Replica{ID: read.Replica, Part: p}, s.asked.Add(s.got.TTL), nil
}

package put

import (
	"context"
	"errors"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store/client/internal/base"
	"github.com/mooncake-go/mooncake/core/store/session"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// endPause is the pause before the ends are repeated that a new master did not know yet.
const endPause = 200 * time.Millisecond

// RepeatEnds ends, at a master that has come, the puts that masters before it had ended last. To end a put twice is a
// success. The master may not have read all ledgers yet, so that those that it does not know are repeated for a while; they
// are gone when they were removed or evicted, or another value took their place.
func (w *Writer) RepeatEnds(ctx context.Context, epoch uint64) {
	if w.Calls.Enter("store") != nil {
		return
	}
	defer w.Calls.Leave()
	ctx, cancel := context.WithTimeout(ctx, endPatience)
	defer cancel()
	for left := w.ends.before(epoch); ; {
		var again []model.EndItem
		base.InBatches(len(left), w.Config.MaxBatch, func(lo, hi int) { again = append(again, w.repeat(ctx, left[lo:hi])...) })
		if left = again; len(left) == 0 {
			return
		}
		select {
		case <-time.After(endPause):
		case <-ctx.Done():
			return
		}
	}
}

// repeat ends puts and returns those that the master does not know.
func (w *Writer) repeat(ctx context.Context, items []model.EndItem) (again []model.EndItem) {
	got, err := session.Ask(ctx, w.Session, "BatchPutEnd", func(ctx context.Context) ([]error, error) {
		return w.Master.PutEnd(ctx, w.Caller, items, nil)
	})
	if base.Complete(err, len(got), len(items)) != nil {
		if errors.Is(err, errs.ErrForeign) {
			return nil
		}
		return items
	}
	for i, e := range got {
		if errs.Is(e, errs.ObjectNotFound) || e != nil && away(e) {
			again = append(again, items[i])
		}
	}
	return again
}

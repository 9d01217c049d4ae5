package faulty

import (
	"context"
	"errors"

	"github.com/mooncake-go/mooncake/sdk/tier"
)

// Reap implements tier.Tier.
func (w *wrapped) Reap(ctx context.Context, dst []tier.Completion) (int, error) {
	if len(dst) == 0 {
		return w.Tier.Reap(ctx, dst)
	}
	var ended error
	for {
		w.mu.Lock()
		n := copy(dst, w.ready)
		w.ready = w.ready[n:]
		news := w.news
		w.mu.Unlock()
		if n > 0 {
			return n, nil
		}
		if ended != nil {
			return 0, ended
		}
		n, err := w.reap(ctx, dst, news)
		if w.take(dst[:n]); n > 0 {
			continue
		}
		if errors.Is(err, tier.ErrStopped) {
			select {
			case <-w.stopped: // Nothing is added any more; look at ready again.
				ended = err
				continue
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}
		select {
		case <-news: // They ended the wait; that is no error.
		default:
			return 0, err
		}
	}
}

// reap waits for the inner tier or for news.
func (w *wrapped) reap(ctx context.Context, dst []tier.Completion, news <-chan struct{}) (int, error) {
	waiting, cancel := context.WithCancel(ctx)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-news:
			cancel()
		case <-waiting.Done():
		}
	}()
	n, err := w.Tier.Reap(waiting, dst)
	cancel()
	<-stopped
	return n, err
}

// take applies the plan to completions of the inner tier.
func (w *wrapped) take(got []tier.Completion) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range got {
		f := w.flights[c.ID]
		if c.Status != tier.Quarantined {
			delete(w.flights, c.ID)
		}
		c.ID = f.op.ID
		if c.Status == tier.Quarantined || c.Status == tier.Returned {
			w.ready = append(w.ready, c)
			continue
		}
		w.apply(f, c)
	}
}

// apply makes of a completion what the rule of its operation says. The caller holds w.mu.
func (w *wrapped) apply(f *flight, c tier.Completion) {
	switch {
	case f.holds():
		if f.real, f.done = c, true; f.released || w.over {
			delete(w.held, f)
			w.end(f)
		}
		return
	case f.rule != nil && f.rule.fault != 0:
		w.undo(c)
		c = tier.Completion{ID: c.ID, Status: tier.Failed, Err: f.rule.err()}
	case c.Status == tier.OK && f.op.Kind == tier.Write:
		w.wrote(f, c)
	case c.Status == tier.OK:
		c = w.wasRead(f, c)
	}
	switch {
	case f.is(NoCompletion):
	case f.is(Duplicate):
		w.ready = append(w.ready, c, c)
	default:
		w.ready = append(w.ready, c)
	}
}

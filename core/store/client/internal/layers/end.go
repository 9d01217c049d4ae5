package layers

import (
	"context"
	"errors"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/client/internal/base"
	"github.com/mooncake-go/mooncake/core/store/client/internal/get"
	"github.com/mooncake-go/mooncake/core/store/client/internal/put"
	"github.com/mooncake-go/mooncake/core/store/session"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// EndPuts implements store.Layers.
func (l *Layers) EndPuts(ctx context.Context, keys []model.Key) []error {
	return l.finish(ctx, keys, get.NoSession, l.sealAll, l.end)
}

// RevokePuts implements store.Layers.
func (l *Layers) RevokePuts(ctx context.Context, keys []model.Key) []error {
	return l.finish(ctx, keys, ignore, func(context.Context, []*openPut) {}, l.revoke)
}

// ignore is for calls that ignore keys without a session.
func ignore(string, model.Key) error { return nil }

// finish seals sessions and calls first and do with them. The sessions without an answer of the master stay.
func (l *Layers) finish(ctx context.Context, keys []model.Key, none func(string, model.Key) error, first, do func(context.Context, []*openPut)) []error {
	if err := l.Calls.Enter("store"); err != nil {
		return store.Repeat(err, len(keys))
	}
	defer l.Calls.Leave()
	out := make([]error, len(keys))
	sealed, puts := l.seal(keys, out, none)
	for _, p := range puts {
		if p.idle != nil {
			<-p.idle
		}
	}
	first(ctx, puts)
	ctx, cancel := l.Finishing(ctx)
	defer cancel()
	base.InBatches(len(puts), l.Config.MaxBatch, func(lo, hi int) { do(ctx, puts[lo:hi]) })
	for i, p := range sealed {
		if p != nil {
			out[i] = p.item.Err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range puts {
		if session.Unanswered(p.item.Err) {
			p.busy = false
			p.item.Reopen()
			continue
		}
		l.drop(id{l, p.item.Key()})
	}
	return out
}

// seal claims sessions for the caller alone. While a range is being written, idle is a channel that
// closes afterwards. It returns the session of each key, and each session once.
func (l *Layers) seal(keys []model.Key, out []error, none func(string, model.Key) error) (byKey, once []*openPut) {
	mine := map[*openPut]bool{}
	byKey = make([]*openPut, len(keys))
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, key := range keys {
		p := l.puts[id{l, key}]
		switch {
		case p == nil:
			out[i] = none("end the put of", key)
			continue
		case mine[p]:
		case p.busy:
			out[i] = errs.New(errs.UnavailableInCurrentStatus, "store: end the put of "+store.Quote(key), "another call starts or ends its session at the moment")
			continue
		default:
			p.busy, p.sealed, mine[p] = true, true, true
			once = append(once, p)
			if p.idle = nil; p.writing > 0 {
				p.idle = make(chan struct{})
			}
		}
		byKey[i] = p
	}
	return byKey, once
}

// end makes complete objects readable and revokes the others.
func (l *Layers) end(ctx context.Context, puts []*openPut) {
	c := l.writer.Call(0)
	defer c.Release()
	items := make([]*put.Item, len(puts))
	for i, p := range puts {
		it := &p.item
		switch it.Err = p.failed; {
		case it.Err != nil:
		case !p.written.whole(it.Size()):
			it.Err = errs.WithHint(errs.New(errs.InvalidParams, "store: end the put of "+store.Quote(it.Key()), "not all of its %d bytes were written", it.Size()),
				"the put is revoked; write every byte before the end")
		case p.stored:
		case p.grains != nil && p.written.twice:
			it.Err = c.ReadBack(ctx, it)
		case p.grains != nil:
			it.SetGrains(p.grains)
		}
		items[i] = it
	}
	c.End(ctx, items, time.Time{})
	l.writer.Revoke(ctx, items)
}

// revoke revokes puts.
func (l *Layers) revoke(ctx context.Context, puts []*openPut) {
	if len(puts) == 0 {
		return
	}
	revocations := make([]model.RevokeItem, len(puts))
	for i, p := range puts {
		revocations[i] = p.item.Revocation()
	}
	got, err := l.writer.RevokePuts(ctx, revocations)
	for i, p := range puts {
		e := err
		if e == nil {
			e = got[i]
		}
		switch {
		case errs.Is(e, errs.ObjectNotFound):
		case errs.Is(e, errs.NotSupported) && p.item.Indeterminate():
			l.Metrics.Unrevoked.Inc() // The master releases it by its timeout, like the put of a client that died.
		default:
			p.item.Err = errs.Wrap(errs.CodeOf(e), "store: revoke the put of "+store.Quote(p.item.Key()), e)
		}
	}
}

// revokeAll revokes puts and ends their sessions, whatever the master answers: it releases the puts
// of which it did not hear by its timeout. The same goes for puts that are still being written when
// the context ends.
func (l *Layers) revokeAll(ctx context.Context, keys []model.Key) error {
	_, puts := l.seal(keys, make([]error, len(keys)), ignore)
	var idle []*openPut
	var failed error
	for _, p := range puts {
		if p.idle != nil {
			select {
			case <-p.idle:
			case <-ctx.Done():
				l.Metrics.Unrevoked.Inc()
				p.item.Linger()
				failed = errors.Join(failed, errs.Wrap(errs.Internal, "store: revoke a put that is being written", ctx.Err()))
				continue
			}
		}
		idle = append(idle, p)
	}
	base.InBatches(len(idle), l.Config.MaxBatch, func(lo, hi int) { l.revoke(ctx, idle[lo:hi]) })
	for _, p := range idle {
		failed = errors.Join(failed, p.item.Err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range puts {
		l.drop(id{l, p.item.Key()})
	}
	return failed
}

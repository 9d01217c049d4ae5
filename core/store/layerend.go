package store

import (
	"context"
	"errors"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// BatchPutSessionEnd makes objects readable whose bytes are all in place, and ends their
// sessions. It waits for writes in flight, which end within the transfer timeout. Where each
// byte was written once, the object gets a checksum.
//
// InvalidParams: no session is open, or bytes are missing. TransferFail: a write failed. The
// put is revoked then. RPCFail and RPCTimeout: the master gave no answer; the session stays,
// takes no more writes, and can be ended or revoked again. Other answers of the master are
// as those to Put, and the session is over.
func (l *Layers) BatchPutSessionEnd(ctx context.Context, keys []model.Key) []error {
	return l.finish(ctx, keys, noSession, func(ctx context.Context, puts []*openPut) { l.end(ctx, puts) })
}

// BatchPutSessionRevoke gives up puts and ends their sessions. It waits for writes under
// way. A key without a session, or whose put the master gave up already, is a success.
// RPCFail and RPCTimeout as BatchPutSessionEnd. Where a peer may still write, the master
// keeps the room out of use until its timeout.
func (l *Layers) BatchPutSessionRevoke(ctx context.Context, keys []model.Key) []error {
	none := func(string, model.Key) error { return nil }
	return l.finish(ctx, keys, none, func(ctx context.Context, puts []*openPut) { l.revoke(ctx, puts) })
}

// finish seals sessions and has them worked on. Those that got no answer stay.
func (l *Layers) finish(ctx context.Context, keys []model.Key, none func(string, model.Key) error, work func(context.Context, []*openPut)) []error {
	c, out := l.c, make([]error, len(keys))
	if err := c.enter(); err != nil {
		for i := range out {
			out[i] = err
		}
		return out
	}
	defer c.calls.Done()
	sealed, puts := l.seal(keys, func(i int, err error) { out[i] = err }, none)
	for _, p := range puts {
		if p.idle != nil {
			<-p.idle
		}
	}
	ctx, cancel := c.finishing(ctx)
	defer cancel()
	inBatches(len(puts), c.cfg.MaxBatch, func(lo, hi int) { work(ctx, puts[lo:hi]) })
	for i, p := range sealed {
		if p != nil {
			out[i] = p.item.err
		}
	}
	c.table.release(l, puts, func(p *openPut) bool { return unanswered(p.item.err) })
	return out
}

// seal takes sessions for the caller alone; where something is being written, idle says when
// it is not any more. It returns the session of each key, and each session once.
func (l *Layers) seal(keys []model.Key, fail func(int, error), none func(string, model.Key) error) (byKey, once []*openPut) {
	t, mine := l.c.table, map[*openPut]bool{}
	byKey = make([]*openPut, len(keys))
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, key := range keys {
		p := t.puts[layerKey{l, key}]
		switch {
		case p == nil:
			fail(i, none("end the put of", key))
			continue
		case mine[p]:
		case p.busy:
			fail(i, errs.New(errs.UnavailableInCurrentStatus, "store: end the put of "+quote(key), "another call starts or ends its session at the moment"))
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

// release ends sessions that were sealed, but for those that stay.
func (t *layerTable) release(user *Layers, puts []*openPut, stays func(*openPut) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range puts {
		if stays(p) {
			p.busy, p.item.err, p.item.decided = false, nil, false
			continue
		}
		t.dropPut(layerKey{user, p.item.key})
	}
}

// end makes what is complete readable and revokes the rest.
func (l *Layers) end(ctx context.Context, puts []*openPut) {
	items := make([]*putItem, len(puts))
	for i, p := range puts {
		it := &p.item
		it.err = p.failed
		if covered, sum := p.tiles.whole(it.size); it.err == nil && !covered {
			it.err = errs.WithHint(errs.New(errs.InvalidParams, "store: end the put of "+quote(it.key), "not all of its %d bytes were written", it.size),
				"the put is revoked; write every byte before the end")
		} else if l.c.cfg.Checksum {
			it.sum = sum
		}
		items[i] = it
	}
	w := l.c.writing(0)
	defer l.c.doneWriting(w)
	l.c.putEnd(ctx, w, items, time.Time{})
	l.c.putRevoke(ctx, items)
}

// revoke tells the master of puts that are given up.
func (l *Layers) revoke(ctx context.Context, puts []*openPut) {
	if len(puts) == 0 {
		return
	}
	given := make([]model.RevokeItem, len(puts))
	for i, p := range puts {
		given[i] = p.item.revoked()
	}
	got, err := l.c.revoke(ctx, given)
	for i, p := range puts {
		e := err
		if e == nil {
			e = got[i]
		}
		switch {
		case errs.Is(e, errs.ObjectNotFound):
		case errs.Is(e, errs.NotSupported) && p.item.doubted:
			l.c.metrics.unrevoked.Inc() // As the master does where a writer is never heard of again.
		default:
			p.item.err = errs.Wrap(errs.CodeOf(e), "store: revoke the put of "+quote(p.item.key), e)
		}
	}
}

// revokeAll revokes puts and ends their sessions, whatever the master says: what it did not
// hear of, it releases by its timeout. So it is with what is still being written when the
// context ends.
func (l *Layers) revokeAll(ctx context.Context, keys []model.Key) error {
	_, puts := l.seal(keys, func(int, error) {}, func(string, model.Key) error { return nil })
	var quiet []*openPut
	var failed error
	for _, p := range puts {
		if p.idle != nil {
			select {
			case <-p.idle:
			case <-ctx.Done():
				l.c.metrics.unrevoked.Inc()
				failed = errors.Join(failed, errs.Wrap(errs.Internal, "store: revoke a put that is being written", ctx.Err()))
				continue
			}
		}
		quiet = append(quiet, p)
	}
	inBatches(len(quiet), l.c.cfg.MaxBatch, func(lo, hi int) { l.revoke(ctx, quiet[lo:hi]) })
	for _, p := range quiet {
		failed = errors.Join(failed, p.item.err)
	}
	t := l.c.table
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range puts {
		t.dropPut(layerKey{l, p.item.key})
	}
	return failed
}

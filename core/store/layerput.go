package store

import (
	"context"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// openPut is an object that a user writes in pieces. Guarded by the table's mutex; item
// belongs to the call that is busy with it.
type openPut struct {
	item    putItem
	started time.Time     // before the request
	busy    bool          // a call starts it, ends it or revokes it
	sealed  bool          // nothing is written any more
	writing int           // calls that write
	idle    chan struct{} // with sealed: closed by the last of them
	failed  error         // why a write failed
	tiles   tiles
}

// BatchPutSessionStart opens sessions for writing: the master is asked once for room, sizes
// are in bytes. Nobody can read the objects until BatchPutSessionEnd. groups is empty or has
// one for each key. cfg is that of Put.
//
// ObjectAlreadyExists: a value exists, or a client, perhaps this one, is writing one; no
// session is open then and there is nothing to write. InvalidParams, NoAvailableHandle and
// the master's other refusals as Put; UnavailableInCurrentStatus: too many are open.
func (l *Layers) BatchPutSessionStart(ctx context.Context, keys []model.Key, sizes []uint64, cfg model.ReplicateConfig, groups []string) []error {
	c, out := l.c, make([]error, len(keys))
	err := c.enter()
	if err == nil {
		defer c.calls.Done()
		if len(sizes) != len(keys) || len(groups) != 0 && len(groups) != len(keys) {
			err = errs.New(errs.InvalidParams, "store: start to put", "%d keys came with %d sizes and %d groups", len(keys), len(sizes), len(groups))
		}
	}
	if err != nil {
		for i := range out {
			out[i] = err
		}
		return out
	}
	if cfg.HostID == "" {
		cfg.HostID = c.host
	}
	begun := make([]*openPut, len(keys))
	todo := make([]*putItem, 0, len(keys))
	for i, key := range keys {
		p := &openPut{item: putItem{key: key, size: sizes[i]}, started: time.Now(), busy: true, sealed: true}
		if len(groups) > 0 {
			p.item.group = groups[i]
		}
		if out[i] = l.reserve(p); out[i] == nil {
			begun[i] = p
			todo = append(todo, &p.item)
		}
	}
	inBatches(len(todo), c.cfg.MaxBatch, func(lo, hi int) {
		c.putWaiting(ctx, todo[lo:hi], func(items []*putItem) { c.putStart(ctx, &writing{}, items, cfg) }) // The items outlive the call.
	})
	var misfits []*putItem
	for i, p := range begun {
		if p == nil {
			continue
		}
		if out[i] = l.opened(p); out[i] != nil && len(p.item.replicas) > 0 {
			p.item.err = out[i]
			misfits = append(misfits, &p.item)
		}
	}
	l.giveBack(ctx, misfits)
	c.forgetHot(keys)
	return out
}

// reserve takes the key, so that no other call of the user starts it.
func (l *Layers) reserve(p *openPut) error {
	key := p.item.key
	if err := model.ValidateKey(key); err != nil {
		return err
	}
	if p.item.size == 0 {
		return errs.New(errs.InvalidParams, "store: start to put "+quote(key), "the size is 0; an object has at least 1 byte")
	}
	t, k := l.c.table, layerKey{l, key}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return errs.Wrap(errs.Internal, "store", ErrClosed)
	}
	if t.puts[k] != nil {
		return beingPut(key)
	}
	if err := l.room(); err != nil {
		return err
	}
	l.open++
	t.puts[k] = p
	return nil
}

func beingPut(key model.Key) error {
	return errs.New(errs.ObjectAlreadyExists, "store: start to put "+quote(key), "the object is there already, or is being put")
}

// opened decides what became of a start, and lets writes in.
func (l *Layers) opened(p *openPut) error {
	err, t, k := p.item.err, l.c.table, layerKey{l, p.item.key}
	if err == nil && p.item.existed {
		err = beingPut(p.item.key)
	}
	if err == nil {
		err = p.item.checkPlaces()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil && t.closed {
		err = errs.Wrap(errs.Internal, "store", ErrClosed)
	}
	if err != nil {
		t.dropPut(k)
		return err
	}
	p.busy, p.sealed = false, false
	t.watch(p.started.Add(l.c.cfg.Layers.PutTimeout))
	return nil
}

// giveBack revokes puts whose items have an error.
func (l *Layers) giveBack(ctx context.Context, items []*putItem) {
	if len(items) == 0 {
		return
	}
	ctx, cancel := l.c.finishing(ctx)
	defer cancel()
	inBatches(len(items), l.c.cfg.MaxBatch, func(lo, hi int) { l.c.putRevoke(ctx, items[lo:hi]) })
}

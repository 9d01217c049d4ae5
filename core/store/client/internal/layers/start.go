package layers

import (
	"context"

	"github.com/mooncake-go/mooncake/core/internal/boottime"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/client/internal/base"
	"github.com/mooncake-go/mooncake/core/store/client/internal/put"
	"github.com/mooncake-go/mooncake/core/store/internal/fragment"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// StartPuts implements store.Layers.
func (l *Layers) StartPuts(ctx context.Context, keys []model.Key, sizes []uint64, cfg model.ReplicateConfig, groups []string) []error {
	err := l.Calls.Enter("store")
	if err == nil {
		defer l.Calls.Leave()
		err = store.CheckStart(len(keys), len(sizes), len(groups))
	}
	if err != nil {
		return store.Repeat(err, len(keys))
	}
	if cfg.HostID == "" {
		cfg.HostID = l.Host
	}
	l.Session.KeepAlive(ctx)
	right := l.Session.WriteRight()
	out := make([]error, len(keys))
	begun := make([]*openPut, len(keys))
	todo := make([]*put.Item, 0, len(keys))
	for i, key := range keys {
		group := ""
		if len(groups) > 0 {
			group = groups[i]
		}
		p := &openPut{item: put.Reserved(key, sizes[i], group, l.Seal != nil), started: boottime.Time(), right: right, busy: true, sealed: true}
		if out[i] = l.reserve(p); out[i] == nil {
			begun[i] = p
			todo = append(todo, &p.item)
		}
	}
	base.InBatches(len(todo), l.Config.MaxBatch, func(lo, hi int) {
		l.writer.WaitForSpace(ctx, todo[lo:hi], func(items []*put.Item) { l.writer.Call(0).Start(ctx, items, cfg) }) // Never released, since its items outlive the call.
	})
	var misfits []*put.Item
	for i, p := range begun {
		if p == nil {
			continue
		}
		if out[i] = l.opened(p); out[i] != nil && len(p.item.Replicas) > 0 {
			p.item.Err = out[i]
			misfits = append(misfits, &p.item)
		}
	}
	if len(misfits) > 0 {
		ctx, cancel := l.Finishing(ctx)
		defer cancel()
		base.InBatches(len(misfits), l.Config.MaxBatch, func(lo, hi int) { l.writer.Revoke(ctx, misfits[lo:hi]) })
	}
	l.reader.Forget(keys)
	return out
}

// reserve claims the key, so that no other call of the user starts it.
func (l *Layers) reserve(p *openPut) error {
	key := p.item.Key()
	if err := model.ValidateKey(key); err != nil {
		return err
	}
	if p.item.Size() == 0 {
		return errs.New(errs.InvalidParams, "store: start to put "+store.Quote(key), "the size is 0; an object has at least 1 byte")
	}
	if p.item.Err != nil {
		return p.item.Err
	}
	k := id{l, key}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errs.Wrap(errs.Internal, "store", store.ErrClosed)
	}
	if l.puts[k] != nil {
		return beingPut(key)
	}
	if err := l.holds(p); err != nil {
		return err
	}
	if err := l.leases.Reserve(&l.user); err != nil {
		return err
	}
	l.take(p)
	l.puts[k] = p
	return nil
}

func beingPut(key model.Key) error {
	return errs.New(errs.ObjectAlreadyExists, "store: start to put "+store.Quote(key), "the object is there already, or is being put")
}

// opened decides whether a start succeeded, and permits writes.
func (l *Layers) opened(p *openPut) error {
	err, key := p.item.Err, p.item.Key()
	if err == nil && p.item.Existed {
		err = beingPut(key)
	}
	if err == nil {
		err = p.item.CheckReplicas()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && l.closed {
		err = errs.Wrap(errs.Internal, "store", store.ErrClosed)
	}
	if err != nil {
		l.drop(id{l, key})
		return err
	}
	if l.Config.Checksum {
		_, n := fragment.GrainOf(p.item.StoredSize())
		p.grains = make([]uint32, n)
	}
	p.busy, p.sealed = false, false
	l.alarm.At(p.started.Add(l.Config.Layers.PutTimeout))
	return nil
}

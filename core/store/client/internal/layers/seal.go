package layers

import (
	"context"
	"time"

	"github.com/mooncake-go/mooncake/core/internal/boottime"
	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/client/internal/base"
	"github.com/mooncake-go/mooncake/core/store/client/internal/put"
	"github.com/mooncake-go/mooncake/core/store/session"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// A chunk of an object is sealed as a whole, and once, but ranges may be written in any order, and twice. The bytes of a session
// therefore stay with the client until it ends, and are sealed and written then.

// holds returns an error if there is no space for the bytes of a session. The caller holds mu.
func (t *Table) holds(p *openPut) error {
	most := t.Config.Seal.Sessions
	if t.Seal == nil || p.item.Size() <= most && t.plain <= most-p.item.Size() {
		return nil
	}
	return errs.WithHint(errs.New(errs.BufferOverflow, "store: start to put "+store.Quote(p.item.Key()), "sealed sessions keep their bytes until they end; those that are open have %s, and with %s more it would be more than %s",
		memory.Human(t.plain), memory.Human(p.item.Size()), memory.Human(most)), "end some sessions first, or put the object as a whole")
}

// take gives a session the memory of its bytes. The caller holds mu.
func (t *Table) take(p *openPut) {
	if t.Seal != nil {
		p.plain = make([]byte, p.item.Size())
		t.plain += p.item.Size()
	}
}

// sealAll seals and writes the objects of sessions whose bytes are complete.
func (l *Layers) sealAll(ctx context.Context, puts []*openPut) {
	if l.Seal == nil {
		return
	}
	var whole []*openPut
	right := l.Session.WriteRight()
	for _, p := range puts {
		switch {
		case p.failed != nil || p.stored || !p.written.whole(p.item.Size()):
		case p.right != right:
			p.failed = lostRight(p.item.Key())
		default:
			whole = append(whole, p)
		}
	}
	base.InBatches(len(whole), l.Config.MaxBatch, func(lo, hi int) { l.sealSome(ctx, right, whole[lo:hi]) })
}

func (l *Layers) sealSome(ctx context.Context, right session.WriteRight, puts []*openPut) {
	c := l.writer.Call(0)
	defer c.Release()
	items, values := make([]*put.Item, len(puts)), make([][]byte, len(puts))
	for i, p := range puts {
		deadline := l.Config.WriteDeadline(time.Now())
		if end := p.started.Add(l.Config.Layers.PutTimeout - boottime.Slept()); end.Before(deadline) {
			deadline = end
		}
		items[i], values[i] = p.item.Ranges(nil, deadline), p.plain
	}
	err := c.SealReserved(ctx, items, values)
	if err == nil {
		c.WriteRanges(ctx, right, items)
	}
	for i, p := range puts {
		switch it := items[i]; {
		case err != nil:
			p.failed = errs.Wrap(errs.CodeOf(err), "store: end the put of "+store.Quote(p.item.Key()), err)
		case it.Err != nil:
			p.failed = it.Err
			p.item.Inherit(it)
		default:
			c.Fold(it, p.grains)
			p.item.SetGrains(p.grains)
			p.stored = true
		}
	}
}

// collect copies what items write to the bytes of their sessions.
func collect(puts []*openPut, items []*put.Item) {
	for _, p := range puts {
		if p == nil {
			continue
		}
		for _, f := range items[0].Fragments() {
			copy(p.plain[f.Offset:], f.Mem)
		}
		items = items[1:]
	}
}

// lostRight is the error of a put whose memory the master may have given to others.
func lostRight(key model.Key) error {
	return errs.WithHint(errs.New(errs.TransferFail, "store: put "+store.Quote(key), "the master had not answered this process for too long, and may have given the memory to others"),
		"put it again")
}

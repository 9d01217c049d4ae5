package chaos

import (
	"bytes"
	"context"
	"math/rand/v2"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/content"
	"github.com/mooncake-go/mooncake/core/bench/worker"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// callLimit bounds a call of the harness. The client's own bounds are shorter.
const callLimit = 2 * time.Minute

// pages puts and reads pages that prove themselves: the key says what the bytes must be.
type pages struct {
	client store.Pool
	model  string
	seed   uint64
	size   int
	// replicas is how many copies a put makes.
	replicas uint32
	*tally
}

func (p *pages) key(id uint64) model.Key { return worker.Key(p.model, p.seed, id, p.size) }

// put stores a page.
func (p *pages) put(ctx context.Context, id uint64) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	page := make([]byte, p.size) // New memory: a write that failed may still be reading the last one.
	content.Fill(page, id, p.seed)
	how := model.DefaultReplicateConfig()
	how.ReplicaNum = p.replicas
	return p.timed(put, func() error {
		return p.client.PutItems(ctx, []store.Item{{Key: p.key(id), Value: [][]byte{page}}}, how)[0].Err
	})
}

// putBatch stores n pages from one on. It does not count as a call.
func (p *pages) putBatch(ctx context.Context, first uint64, n int) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	items := make([]store.Item, n)
	for i := range items {
		page := make([]byte, p.size)
		content.Fill(page, first+uint64(i), p.seed)
		items[i] = store.Item{Key: p.key(first + uint64(i)), Value: [][]byte{page}}
	}
	how := model.DefaultReplicateConfig()
	how.ReplicaNum = p.replicas
	for _, r := range p.client.PutItems(ctx, items, how) {
		if r.Err != nil {
			return r.Err
		}
	}
	return nil
}

// unreadable reads pages whole and returns those that cannot be read; wrong bytes are recorded. It does not count as calls.
func (p *pages) unreadable(ctx context.Context, ids []uint64) (missing []uint64) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	keys, bufs := make([]model.Key, len(ids)), make([][]byte, len(ids))
	for i, id := range ids {
		keys[i], bufs[i] = p.key(id), make([]byte, p.size)
	}
	for i, r := range p.client.GetFragments(ctx, keys, bufs, nil) {
		if r.Err != nil || p.compare(ids[i], bufs[i]) != nil {
			missing = append(missing, ids[i])
		}
	}
	return missing
}

// timed makes a call and records it.
func (p *pages) timed(k kind, f func() error) error {
	begin := time.Now()
	err := f()
	p.call(k, begin, time.Now(), err == nil)
	return err
}

// errWrong is the result of a read that succeeded with wrong bytes, which is recorded already.
var errWrong = errs.New(errs.ChecksumMismatch, "chaos", "the bytes are not those that were put")

// read reads a page whole and compares it.
func (p *pages) read(ctx context.Context, id uint64) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	page := make([]byte, p.size)
	return p.timed(wholeRead, func() error {
		if err := p.client.GetFragments(ctx, []model.Key{p.key(id)}, [][]byte{page}, nil)[0].Err; err != nil {
			return err
		}
		return p.compare(id, page)
	})
}

// compare compares what was read of a page with what was put.
func (p *pages) compare(id uint64, page []byte) error {
	at := content.Verify(page, id, p.seed)
	if at < 0 {
		return nil
	}
	if other, ok := content.Identify(page, p.seed); ok {
		p.bad("a read of page %#x gave page %#x", id, other)
	} else {
		p.bad("a read of page %#x is wrong from byte %d of %d on", id, at, p.size)
	}
	return errWrong
}

// readRanges reads two ranges of a page, anywhere in it, and compares them.
func (p *pages) readRanges(ctx context.Context, id uint64) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	want := make([]byte, p.size)
	content.Fill(want, id, p.seed)
	fragments := make([]store.Fragment, 2)
	for i := range fragments {
		n := 1 + rand.IntN(p.size/4)
		fragments[i] = store.Fragment{Offset: uint64(rand.IntN(p.size - n)), Mem: make([]byte, n)}
	}
	return p.timed(rangeRead, func() error {
		answers := p.client.GetIntoRanges(ctx, []store.Ranges{{Key: p.key(id), Fragments: fragments}})[0]
		for _, a := range answers {
			if a.Err != nil {
				return a.Err
			}
		}
		for _, f := range fragments {
			if !bytes.Equal(f.Mem, want[f.Offset:][:len(f.Mem)]) {
				p.bad("a read of bytes %d to %d of page %#x is wrong", f.Offset, int(f.Offset)+len(f.Mem), id)
				return errWrong
			}
		}
		return nil
	})
}

// remove removes a page. One that is not there is a success, and so is one whose put is unfinished again, because the
// master died before a ledger had its end: it goes by itself.
func (p *pages) remove(ctx context.Context, id uint64) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	err := p.client.BatchRemove(ctx, []model.Key{p.key(id)}, true)[0]
	if errs.Is(err, errs.ObjectNotFound) || errs.Is(err, errs.ReplicaIsNotReady) {
		return nil
	}
	return err
}

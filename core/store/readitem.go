package store

import (
	"time"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// whose says where the memory of a read comes from.
type whose uint8

const (
	callers whose = iota // the caller's
	heap                 // made by the client
	pooled               // lent by the pool of buffers where that has room, else made
)

// readItem is one object on its way out of the pool.
type readItem struct {
	key    model.Key
	mode   whose
	cold   bool    // the hot cache is left out
	ranges bool    // the caller asked for ranges, not for the object
	dst    []byte  // memory of the client's
	lent   *Buffer // holds dst, with pooled
	one    [1]span // backs spans of a read into one piece
	two    [1]span // backs what is read into it
	want   []span  // the caller's memory
	check  func(size uint64) []span

	obj     model.Object
	spans   []span // what is read, of obj
	whole   bool   // spans are all of obj, in order
	expires time.Time
	held    *heldObject // what a session holds of obj, nil outside of one
	lapses  int         // of held, when the read began
	first   int         // index of the first request of the current round
	sum     uint32      // of the bytes that arrived, where summed says so
	summed  bool
	next    int   // index of the replica to be tried
	last    error // why the replica before failed
	twice   bool  // the replica to be tried had wrong bytes once
	damaged int   // replicas that had wrong bytes twice
	ok      bool
	err     error
}

// into has the item read into one piece of the caller's memory.
func (it *readItem) into(mem []byte) {
	it.one[0] = span{mem: mem}
	it.want = it.one[:]
}

func (it *readItem) replica() *model.Replica { return &it.obj.Replicas[it.next] }

// size is how many bytes were read, 0 after an error.
func (it *readItem) size() int {
	if !it.ok {
		return 0
	}
	return int(it.obj.Size)
}

// bytes returns what was read into memory of the client's, nil after an error.
func (it *readItem) bytes() []byte {
	if !it.ok {
		return nil
	}
	return it.dst[:it.obj.Size]
}

// renew gives the item other memory of its own in place of what may still be touched.
func (it *readItem) renew() {
	it.lent = nil // Never given back.
	it.dst = make([]byte, it.obj.Size)
	it.one[0] = span{mem: it.dst}
	it.spans = it.one[:]
}

// place chooses what is read of obj, and where to.
func (c *Client) place(it *readItem) error {
	o := &it.obj
	if it.mode != callers {
		if o.Size > c.cfg.MaxObjectSize {
			return errs.New(errs.BufferOverflow, "", "the object has %s, more than the bound of %s", memory.Human(o.Size), memory.Human(c.cfg.MaxObjectSize))
		}
		if uint64(len(it.dst)) != o.Size {
			c.provide(it)
		}
		it.one[0] = span{mem: it.dst}
		it.spans, it.whole = it.one[:], true
		return nil
	}
	if it.ranges {
		it.spans = it.check(o.Size)
		it.whole = covers(it.spans, o.Size)
		return nil
	}
	room := append(it.two[:0], it.want...) // cut shortens a copy: the object may have another size next time.
	spans, ok := cut(room, o.Size)
	if !ok {
		have := 0
		for _, s := range it.want {
			have += len(s.mem)
		}
		return errs.New(errs.InvalidParams, "", "the object has %d bytes, the buffer %d", o.Size, have)
	}
	it.spans, it.whole = spans, true
	return nil
}

// provide gives the item memory for its object.
func (c *Client) provide(it *readItem) {
	it.lent.Release()
	it.lent, it.dst = nil, nil
	if it.mode == pooled && c.pool != nil {
		if b, ok := c.pool.TryGet(int(it.obj.Size)); ok {
			it.lent, it.dst = &Buffer{mem: b.Bytes(), lent: b}, b.Bytes()
			return
		}
	}
	it.dst = make([]byte, it.obj.Size)
}

// covers reports whether spans are all bytes of an object, in order and without gaps.
func covers(spans []span, size uint64) bool {
	at := uint64(0)
	for _, s := range spans {
		if s.off != at {
			return false
		}
		at += uint64(len(s.mem))
	}
	return at == size
}

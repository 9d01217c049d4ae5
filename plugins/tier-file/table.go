package file

import (
	"sort"

	"github.com/mooncake-go/mooncake/plugins/tier-file/internal/record"
	"github.com/mooncake-go/mooncake/sdk/tier"
	"github.com/mooncake-go/mooncake/sdk/x/slotindex"
)

// entry is a record that can be read, or one that was forgotten while it is being read.
type entry struct {
	addr, seq uint64
	version   tier.Version
	size      uint64
	key       string
	sum       uint32
	slot      uint32
	readers   int32
	summed    bool
	forgotten bool
	bad       bool // the storage failed to read it, so its extent stays out of use
}

func (e *entry) units() uint64 { return units(e.size) }

// units returns how many pages a value takes with its header.
func units(size uint64) uint64 { return 1 + (size+record.Page-1)/record.Page }

// chunk is how many entries are allocated together. Entries do not move.
const chunk = 1024

// table holds the entries. Records are found by their address, and listed by their sequence.
type table struct {
	chunks [][]entry
	unused []uint32
	byAddr slotindex.Split
	order  []ordered // by sequence; of the live ones and some that are not
	used   uint64    // bytes that live records take
	logged uint64    // bytes that they take in the log, about
}

type ordered struct {
	seq  uint64
	slot uint32
}

func (t *table) at(slot uint32) *entry { return &t.chunks[(slot-1)/chunk][(slot-1)%chunk] }

func (t *table) hashOf(slot uint32) uint64 { return slotindex.Mix(t.at(slot).addr) }

// live returns how many records can be read.
func (t *table) live() int { return t.byAddr.Len() }

// find returns the entry at an address, or nil.
func (t *table) find(addr uint64) *entry {
	slot := t.byAddr.Find(slotindex.Mix(addr), func(n uint32) bool { return t.at(n).addr == addr })
	if slot == 0 {
		return nil
	}
	return t.at(slot)
}

// add enters a record. Its sequence is among the highest, as a rule.
func (t *table) add(e entry) *entry {
	if len(t.unused) == 0 {
		first := uint32(len(t.chunks))*chunk + 1
		t.chunks = append(t.chunks, make([]entry, chunk))
		for i := uint32(chunk); i > 0; i-- {
			t.unused = append(t.unused, first+i-1)
		}
	}
	e.slot = t.unused[len(t.unused)-1]
	t.unused = t.unused[:len(t.unused)-1]
	p := t.at(e.slot)
	*p = e
	t.byAddr.Add(slotindex.Mix(e.addr), e.slot, t.hashOf)
	t.used += e.units() * record.Page
	t.logged += logSize(p)
	t.order = append(t.order, ordered{e.seq, e.slot})
	for i := len(t.order) - 1; i > 0 && t.order[i-1].seq > e.seq; i-- {
		t.order[i], t.order[i-1] = t.order[i-1], t.order[i]
	}
	return p
}

// logSize is about how many bytes the log needs for a record.
func logSize(e *entry) uint64 { return uint64(len(e.key)) + 48 }

// remove ends a record. The entry stays until release.
func (t *table) remove(e *entry) {
	t.byAddr.Remove(slotindex.Mix(e.addr), e.slot)
	e.forgotten = true
	t.used -= e.units() * record.Page
	t.logged -= logSize(e)
}

// release makes the entry of a removed record free.
func (t *table) release(e *entry) {
	slot := e.slot
	*e = entry{}
	t.unused = append(t.unused, slot)
	if len(t.order) > 1024 && len(t.order) > 2*t.live() {
		t.compact()
	}
}

// get returns the live entry of an element of order, or nil.
func (t *table) get(o ordered) *entry {
	if e := t.at(o.slot); e.seq == o.seq && !e.forgotten {
		return e
	}
	return nil
}

func (t *table) compact() {
	live := t.order[:0]
	for _, o := range t.order {
		if t.get(o) != nil {
			live = append(live, o)
		}
	}
	t.order = live
}

// below calls do for live records with lower sequences, the highest first, until it returns false.
func (t *table) below(seq uint64, do func(*entry) bool) {
	for i := sort.Search(len(t.order), func(i int) bool { return t.order[i].seq >= seq }) - 1; i >= 0; i-- {
		if e := t.get(t.order[i]); e != nil && !do(e) {
			return
		}
	}
}

// all returns the live records by their sequence.
func (t *table) all() []*entry {
	all := make([]*entry, 0, t.live())
	t.above(0, func(e *entry) bool {
		all = append(all, e)
		return true
	})
	return all
}

// above calls do for live records with higher sequences, the lowest first, until it returns false.
func (t *table) above(seq uint64, do func(*entry) bool) {
	for i := sort.Search(len(t.order), func(i int) bool { return t.order[i].seq > seq }); i < len(t.order); i++ {
		if e := t.get(t.order[i]); e != nil && !do(e) {
			return
		}
	}
}

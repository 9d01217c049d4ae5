package objects

import (
	"strings"

	"github.com/mooncake-go/mooncake/sdk/x/slotindex"
)

// chunkSize is how many records are allocated at a time: what fits into 2 KiB. Larger chunks cost more where a shard fills
// the last one in part only.
const chunkSize = 25

// slots stores the objects of one shard and finds them by their keys. Records never move, so that a pointer to one is good as
// long as it is in the table and the shard is locked. Keys move.
type slots struct {
	hash    func(key []byte) uint64
	homes   *homes
	index   slotindex.Index // leads to a slot, plus one
	chunks  []*[chunkSize]record
	keys    keys
	besides besides
	used    uint32 // slots ever given out
	free    uint32 // the first slot of the list of unused ones, plus one
}

func (t *slots) record(slot uint32) *record { return &t.chunks[slot/chunkSize][slot%chunkSize] }

func (t *slots) at(slot uint32) object { return object{t.record(slot), t} }

// taken reports whether the slot holds an object.
func (r *record) taken() bool { return r.name != 0 }

// nameOf returns the key of a record, where it is stored.
func (t *slots) nameOf(r *record) []byte {
	if r.name == besideName {
		return []byte(t.besides.at(r.more).rest.key)
	}
	return t.keys.get(r.name)
}

// indexed returns the part of a hash that the index takes. The lowest bits choose the shard.
func indexed(h uint64) uint64 { return h >> 32 }

// hashAt hashes the key of an entry of the index again, which it needs in order to grow:
// that is rarer than four bytes in each object would be worth.
func (t *slots) hashAt(number uint32) uint64 { return indexed(t.hash(t.nameOf(t.record(number - 1)))) }

// find looks up a key of hash h.
func (t *slots) find(key string, h uint64) object {
	number := t.index.Find(indexed(h), func(number uint32) bool { return string(t.nameOf(t.record(number-1))) == key })
	if number == 0 {
		return object{}
	}
	return t.at(number - 1)
}

// reserve makes space for n more keys.
func (t *slots) reserve(n int) { t.index.Reserve(n, t.hashAt) }

// add enters a key of hash h that is not there and returns its object, empty but for key, slot and
// generation.
func (t *slots) add(key string, h uint64) object {
	slot, generation := t.used, uint32(0)
	if t.free != 0 {
		slot = t.free - 1
		r := t.record(slot)
		t.free, generation = uint32(r.names.get(slotAt, slotBits)), r.generation
	} else {
		if t.used == uint32(len(t.chunks))*chunkSize {
			t.chunks = append(t.chunks, new([chunkSize]record))
		}
		t.used++
	}
	o := t.at(slot)
	*o.record = record{generation: generation + 1}
	o.setSlot(slot)
	if entry, name, ok := t.keys.add(len(key), slot); ok {
		copy(entry, key)
		o.name = name
	} else {
		o.name, o.extra().key = besideName, strings.Clone(key)
	}
	t.index.Add(indexed(h), slot+1, t.hashAt)
	return o
}

// remove takes an object out. Its slot is used again, under another generation.
func (t *slots) remove(o object) {
	slot, generation := o.slot(), o.generation
	t.index.Remove(indexed(t.hash(o.keyBytes())), slot+1)
	if o.name != besideName {
		t.keys.remove(o.name)
	}
	t.homes.leave(o.seg)
	t.besides.remove(o.more)
	*o.record = record{generation: generation}
	o.setSlot(t.free)
	t.free = slot + 1
	t.tidy()
}

// tidy moves the keys out of one block if holes between keys take too much memory.
func (t *slots) tidy() {
	at, ok := t.keys.wasteful()
	if !ok {
		return
	}
	t.keys.each(at, func(name, slot uint32) bool {
		r := t.record(slot)
		if r.name != name {
			return true // removed
		}
		key := t.keys.get(name)
		entry, moved, ok := t.keys.add(len(key), slot)
		if ok { // else it stays where it is
			copy(entry, key)
			t.keys.remove(name)
			r.name = moved
		}
		return ok
	})
}

// each calls do for every object; do may remove the object it is given.
func (t *slots) each(do func(object)) {
	for slot := range t.used {
		if o := t.at(slot); o.taken() {
			do(o)
		}
	}
}

// word holds several small numbers in eight bytes. Each has a place: its lowest bit, and
// its width in bits.
type word uint64

func (w word) get(at, width uint) uint64 { return uint64(w) >> at & (1<<width - 1) }

// put sets a number, of which it takes the lowest bits.
func (w *word) put(at, width uint, v uint64) {
	mask := word(1<<width-1) << at
	*w = *w&^mask | word(v)<<at&mask
}

// The places in object.marks: flags, data type, kind of the checksum, and the number of the
// last event that moved the object in the eviction order, enough of it for a million events
// a second over 70 years.
const (
	flagBits = 6
	typeAt   = flagBits
	typeBits = 4
	kindAt   = typeAt + typeBits
	kindBits = 3
	rankAt   = kindAt + kindBits
	rankBits = 64 - rankAt

	wideKind = 1<<kindBits - 1 // see extra
)

// The places in object.names: the slot, the client that put it and the one that read it last.
const (
	slotAt     = 0
	creatorAt  = slotBits
	readerAt   = creatorAt + clientBits
	clientBits = 20
)

// The numbers of both words fit. This does not compile where they do not.
const _ = uint(64 - readerAt - clientBits)

package objects

import "github.com/mooncake-go/mooncake/sdk/slotindex"

// chunkSize is how many objects are allocated at a time: what fits into 4 KiB.
const chunkSize = 39

// slots stores the objects of one shard and finds them by their keys. Objects never move,
// so that a pointer to one is good as long as it is in the table and the shard is locked.
type slots struct {
	index  slotindex.Index // leads to a slot, plus one
	chunks []*[chunkSize]object
	used   uint32 // slots ever given out
	free   uint32 // the first slot of the list of unused ones, plus one
}

func (t *slots) at(slot uint32) *object { return &t.chunks[slot/chunkSize][slot%chunkSize] }

// hashOf returns the part of a hash that objects keep. The lowest bits choose the shard.
func hashOf(h uint64) uint32 { return uint32(h >> 32) }

func (t *slots) find(key string, h uint64) *object {
	hash := hashOf(h)
	number := t.index.Find(uint64(hash), func(number uint32) bool {
		o := t.at(number - 1)
		return o.hash == hash && o.key == key
	})
	if number == 0 {
		return nil
	}
	return t.at(number - 1)
}

// add enters a key that is not there and returns its object, empty but for key, slot and
// generation.
func (t *slots) add(key string, h uint64) *object {
	var o *object
	if t.free != 0 {
		o = t.at(t.free - 1)
		slot, next := t.free-1, o.slot()
		t.free = next
		*o = object{bits: slot << slotShift, generation: o.generation + 1}
	} else {
		if t.used == uint32(len(t.chunks))*chunkSize {
			t.chunks = append(t.chunks, new([chunkSize]object))
		}
		o = t.at(t.used)
		o.bits, o.generation = t.used<<slotShift, 1
		t.used++
	}
	o.key, o.hash = key, hashOf(h)
	t.index.Add(uint64(o.hash), o.slot()+1, func(number uint32) uint64 { return uint64(t.at(number - 1).hash) })
	return o
}

// remove takes an object out. Its slot is used again, under another generation.
func (t *slots) remove(o *object) {
	slot, generation := o.slot(), o.generation
	t.index.Remove(uint64(o.hash), slot+1)
	*o = object{bits: t.free << slotShift, generation: generation}
	t.free = slot + 1
}

// each calls do for every object; do may remove the object it is given.
func (t *slots) each(do func(*object)) {
	for slot := range t.used {
		if o := t.at(slot); o.key != "" {
			do(o)
		}
	}
}

package objects

// chunkSize is how many objects are allocated at a time: what fits into 4 KiB.
const chunkSize = 39

// slots stores the objects of one shard and finds them by their keys. Objects never move,
// so that a pointer to one is good as long as it is in the table and the shard is locked.
//
// The index is open addressing with linear probing: an entry holds 32 bits of the hash and
// the slot plus one, so that most misses never touch an object.
type slots struct {
	index  []uint64
	live   uint32
	chunks []*[chunkSize]object
	used   uint32 // slots ever given out
	free   uint32 // the first slot of the list of unused ones, plus one
}

func (t *slots) at(slot uint32) *object { return &t.chunks[slot/chunkSize][slot%chunkSize] }

func tagOf(h uint64) uint32 { return uint32(h >> 32) }

func pack(tag, slot uint32) uint64 { return uint64(tag)<<32 | uint64(slot+1) }

func (t *slots) find(key string, h uint64) *object {
	if t.live == 0 {
		return nil
	}
	mask, tag := uint32(len(t.index)-1), tagOf(h)
	for at := tag & mask; t.index[at] != 0; at = (at + 1) & mask {
		if e := t.index[at]; uint32(e>>32) == tag {
			if o := t.at(uint32(e) - 1); o.key == key {
				return o
			}
		}
	}
	return nil
}

// add enters a key that is not there and returns its object, empty but for key, slot and
// generation.
func (t *slots) add(key string, h uint64) *object {
	if 8*uint64(t.live+1) > 7*uint64(len(t.index)) {
		t.grow()
	}
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
	o.key = key
	t.insert(pack(tagOf(h), o.slot()))
	t.live++
	return o
}

func (t *slots) insert(e uint64) {
	mask := uint32(len(t.index) - 1)
	at := uint32(e>>32) & mask
	for t.index[at] != 0 {
		at = (at + 1) & mask
	}
	t.index[at] = e
}

func (t *slots) grow() {
	old := t.index
	t.index = make([]uint64, max(8, 2*len(old)))
	for _, e := range old {
		if e != 0 {
			t.insert(e)
		}
	}
}

// remove takes an object out. Its slot is used again, under another generation.
func (t *slots) remove(o *object, h uint64) {
	mask := uint32(len(t.index) - 1)
	e := pack(tagOf(h), o.slot())
	at := tagOf(h) & mask
	for t.index[at] != e {
		at = (at + 1) & mask
	}
	// Entries behind move up, as long as that brings them no nearer than their own place.
	for next := (at + 1) & mask; t.index[next] != 0; next = (next + 1) & mask {
		home := uint32(t.index[next]>>32) & mask
		if (next-home)&mask >= (next-at)&mask {
			t.index[at] = t.index[next]
			at = next
		}
	}
	t.index[at] = 0
	t.live--
	slot, generation := o.slot(), o.generation
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

package ranked

import "github.com/mooncake-go/mooncake/sdk/evict"

// table finds the entry of an ID: open addressing with linear probing. A slot holds 32
// bits of the hash above the entry's index, which is never 0; an empty slot is 0. Deleting
// moves later slots back, so there are no tombstones and a steady load never rebuilds.
//
// It is split in parts that grow on their own: growing a part moves one sixty-fourth of
// the slots, which keeps the pause short.
type table struct {
	parts [1 << partBits]part
}

type part struct {
	slots []uint64 // a power of two, or nil
	count int
}

const (
	partBits  = 6
	firstSize = 16
)

// mix spreads the bits of an ID; IDs are mostly consecutive.
func mix(id evict.ID) uint64 {
	h := uint64(id) * 0x9E3779B97F4A7C15
	h ^= h >> 32
	h *= 0xD6E8FEB86659FD93
	return h ^ h>>32
}

func (t *table) part(h uint64) *part { return &t.parts[h>>(64-partBits)] }

// add enters an ID that is not in the table.
func (t *table) add(id evict.ID, index uint32) {
	h := mix(id)
	p := t.part(h)
	if (p.count+1)*4 > len(p.slots)*3 {
		p.grow()
	}
	p.put(uint64(uint32(h))<<32 | uint64(index))
	p.count++
}

// remove takes out the slot that points to index, which must be there.
func (t *table) remove(id evict.ID, index uint32) {
	h := mix(id)
	p := t.part(h)
	mask := uint32(len(p.slots) - 1)
	at := uint32(h) & mask
	for uint32(p.slots[at]) != index {
		at = (at + 1) & mask
	}
	p.count--
	for next := (at + 1) & mask; p.slots[next] != 0; next = (next + 1) & mask {
		home := uint32(p.slots[next]>>32) & mask
		if (next-home)&mask >= (next-at)&mask {
			p.slots[at] = p.slots[next]
			at = next
		}
	}
	p.slots[at] = 0
}

func (p *part) put(slot uint64) {
	mask := uint32(len(p.slots) - 1)
	at := uint32(slot>>32) & mask
	for p.slots[at] != 0 {
		at = (at + 1) & mask
	}
	p.slots[at] = slot
}

func (p *part) grow() {
	old := p.slots
	p.slots = make([]uint64, max(firstSize, 2*len(old)))
	for _, s := range old {
		if s != 0 {
			p.put(s)
		}
	}
}

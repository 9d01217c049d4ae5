package arena

import "github.com/mooncake-go/mooncake/sdk/x/slotindex"

// class is one slot size of a space that has live extents.
type class struct {
	slot   uint64
	live   uint64 // extents
	runs   uint32
	arena  uint32       // node of kind rest, 0 for none
	open   uint32       // the first of its runs that have free slots, 0 for none
	places [sets]uint32 // where the class stands in each set that it is in
	next   uint32       // chains the classes of one hash, and the unused ones
}

// A class is in the set withArena while it has one, and in withOpen while it has open runs.
const (
	withArena = iota
	withOpen
	sets
)

// classes are the slot sizes in use in a space. Index 0 stands for none.
type classes struct {
	all   []class
	heads []uint32       // by hash, a power of two of them
	sets  [sets][]uint32 // in no order
	free  uint32
	last  uint32 // the class that find found last, or 0
	seed  uint64
	inUse int
}

func newClasses(seed uint64) classes {
	return classes{all: make([]class, 1), heads: make([]uint32, 8), seed: seed}
}

// head returns where the chain of a slot size begins. A client that chooses the sizes cannot
// choose some that collide, as it does not know the seed.
func (cs *classes) head(slot uint64) *uint32 {
	return &cs.heads[slotindex.Mix(slot^cs.seed)&uint64(len(cs.heads)-1)]
}

// find returns the class of a slot size, 0 where there is none.
func (cs *classes) find(slot uint64) uint32 {
	if cs.all[cs.last].slot == slot {
		return cs.last
	}
	i := *cs.head(slot)
	for i != 0 && cs.all[i].slot != slot {
		i = cs.all[i].next
	}
	cs.last = i
	return i
}

// add makes a class of a slot size that has none.
func (cs *classes) add(slot uint64) uint32 {
	if cs.inUse == len(cs.heads) {
		cs.grow()
	}
	cs.inUse++
	i := cs.free
	if i != 0 {
		cs.free = cs.all[i].next
	} else {
		i = uint32(len(cs.all))
		cs.all = append(cs.all, class{})
	}
	head := cs.head(slot)
	cs.all[i] = class{slot: slot, next: *head}
	*head = i
	return i
}

func (cs *classes) grow() {
	cs.heads = make([]uint32, 2*len(cs.heads))
	for i := 1; i < len(cs.all); i++ {
		if c := &cs.all[i]; c.slot != 0 {
			head := cs.head(c.slot)
			c.next, *head = *head, uint32(i)
		}
	}
}

// leave takes one extent from a class and forgets a class without extents, which has no runs any
// more. arena is the arena that such a class leaves behind, 0 for none.
func (cs *classes) leave(i uint32) (arena uint32) {
	c := &cs.all[i]
	if c.live--; c.live > 0 {
		return 0
	}
	if arena = c.arena; arena != 0 {
		cs.clearArena(i)
	}
	link := cs.head(c.slot)
	for *link != i {
		link = &cs.all[*link].next
	}
	*link = c.next
	*c = class{next: cs.free}
	cs.free = i
	cs.inUse--
	return arena
}

func (cs *classes) setArena(i, arena uint32) {
	cs.all[i].arena = arena
	cs.enter(i, withArena)
}

func (cs *classes) clearArena(i uint32) {
	cs.all[i].arena = 0
	cs.exit(i, withArena)
}

func (cs *classes) enter(i uint32, set int) {
	cs.all[i].places[set] = uint32(len(cs.sets[set]))
	cs.sets[set] = append(cs.sets[set], i)
}

func (cs *classes) exit(i uint32, set int) {
	list, place := cs.sets[set], cs.all[i].places[set]
	last := list[len(list)-1]
	list[place] = last
	cs.all[last].places[set] = place
	cs.sets[set] = list[:len(list)-1]
}

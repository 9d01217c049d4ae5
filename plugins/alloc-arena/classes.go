package arena

// class is one slot size of a space that has live extents.
type class struct {
	slot  uint64
	live  uint64 // extents
	arena uint32 // node of kind spare, 0 for none
	// place is where the class stands in classes.arenas while it has an arena. In an
	// unused class it chains the free list.
	place uint32
}

// classes are the slot sizes in use in a space. Index 0 stands for none.
type classes struct {
	bySlot map[uint64]uint32
	all    []class
	arenas []uint32 // the classes that have an arena, in no order
	free   uint32
}

func newClasses() classes { return classes{bySlot: map[uint64]uint32{}, all: make([]class, 1)} }

// join returns the class of a slot size, a new one where there is none, with one extent
// more.
func (cs *classes) join(slot uint64) uint32 {
	i := cs.bySlot[slot]
	if i == 0 {
		if i = cs.free; i != 0 {
			cs.free = cs.all[i].place
		} else {
			i = uint32(len(cs.all))
			cs.all = append(cs.all, class{})
		}
		cs.all[i] = class{slot: slot}
		cs.bySlot[slot] = i
	}
	cs.all[i].live++
	return i
}

// leave takes one extent from a class and forgets a class without extents. arena is the
// arena that such a class leaves behind, 0 for none.
func (cs *classes) leave(i uint32) (arena uint32) {
	c := &cs.all[i]
	if c.live--; c.live > 0 {
		return 0
	}
	if arena = c.arena; arena != 0 {
		cs.clearArena(i)
	}
	delete(cs.bySlot, c.slot)
	*c = class{place: cs.free}
	cs.free = i
	return arena
}

func (cs *classes) setArena(i, arena uint32) {
	cs.all[i].arena = arena
	cs.all[i].place = uint32(len(cs.arenas))
	cs.arenas = append(cs.arenas, i)
}

func (cs *classes) clearArena(i uint32) {
	place, last := cs.all[i].place, uint32(len(cs.arenas)-1)
	cs.arenas[place] = cs.arenas[last]
	cs.all[cs.arenas[place]].place = place
	cs.arenas = cs.arenas[:last]
	cs.all[i].arena, cs.all[i].place = 0, 0
}

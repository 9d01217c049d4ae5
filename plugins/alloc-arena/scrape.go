package arena

// scrape cuts a slot out of what classes hold and do not use: it gives up their arenas, and
// then the free slots of the runs that make room. 0 where all that does not do.
func (s *space) scrape(slot, align uint64) uint32 {
	if len(s.classes.sets[withArena]) == 0 && !s.canShed() {
		return 0
	}
	s.giveUpArenas()
	i, off := s.ranges.fit(slot, align)
	if i == 0 && s.canShed() && s.dig(slot, align) {
		i, off = s.ranges.fit(slot, align)
	}
	if i == 0 {
		return 0
	}
	return s.ranges.carve(i, off, slot, live)
}

// giveUpArenas returns what is left of all arenas to the free ranges.
func (s *space) giveUpArenas() {
	for n := len(s.classes.sets[withArena]); n > 0; n-- {
		c := s.classes.sets[withArena][n-1]
		a := s.classes.all[c].arena
		s.classes.clearArena(c)
		s.release(a)
	}
}

// giveUpAll returns all that is free to the free ranges.
func (s *space) giveUpAll() {
	s.giveUpArenas()
	s.shedAll()
}

// atOnce is how many runs give up their free slots for one request that no free range suits
// exactly. More at once would not fill a space better, and hold up all others.
const atOnce = 4

// shedSome returns the free slots of a few runs to the free ranges.
func (s *space) shedSome() {
	for n := 0; n < atOnce && s.canShed(); n++ {
		s.shedOne()
	}
}

// shedAll returns the free slots of all runs to the free ranges.
func (s *space) shedAll() {
	for s.canShed() {
		s.shedOne()
	}
}

func (s *space) shedOne() {
	open := s.classes.sets[withOpen]
	s.shed(s.classes.all[open[len(open)-1]].open)
}

// canShed reports whether there is an open run, and indices for the nodes that may come of it.
func (s *space) canShed() bool {
	return len(s.classes.sets[withOpen]) > 0 && s.ranges.nodes.used <= maxNodes-2*maxRun
}

// largest returns the longest range that an allocation could be given, without looking at
// more than the first open runs of each class.
func (s *space) largest() uint64 {
	n := s.ranges.bySize.largest()
	for _, c := range s.classes.sets[withArena] {
		n = max(n, s.ranges.nodes.size(s.ranges.nodes.at(s.classes.all[c].arena)))
	}
	for _, c := range s.classes.sets[withOpen] {
		i := s.classes.all[c].open
		for visit := 0; i != 0 && visit < tries; visit++ {
			r := s.runs.at(i)
			n = max(n, r.longest()*r.slot)
			i = r.next
		}
	}
	return n
}

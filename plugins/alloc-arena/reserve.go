package arena

// verdict is the outcome of a reservation.
type verdict uint8

const (
	reserved verdict = iota
	overlaps
	outside
	impossible
)

// take makes exactly [off, off+size) a live extent.
func (s *space) take(off, size uint64) verdict {
	switch {
	case size > s.size || off > s.size-size:
		return outside
	case size == 0, off%s.granules.fine != 0, size > s.limit, s.granules.slot(size) > s.limit, off > s.limit-s.granules.slot(size),
		s.ranges.nodes.full():
		return impossible
	}
	slot := s.granules.slot(size)
	s.giveUpAll()
	s.indexByOffset()
	r := &s.ranges
	t := r.byOffset.floor(r.byOffset.root, off)
	if t == 0 {
		return overlaps
	}
	i := r.byOffset.nodes[t].value
	if end := r.nodes.end(r.nodes.at(i)); off > end || end-off < slot {
		return overlaps
	}
	s.enter(r.carve(i, off, slot, live), s.classes.find(slot), size)
	return reserved
}

// indexByOffset makes the index of free ranges by offset, unless there is one.
func (s *space) indexByOffset() {
	r := &s.ranges
	if r.byOffset != nil {
		return
	}
	t := tree{forest: newForest(r.bySize.seed)}
	for i := r.nodes.at(0).next; i != 0; i = r.nodes.at(i).next {
		if n := r.nodes.at(i); n.kind() == hole {
			*t.insert(&t.root, n.off()) = i
		}
	}
	r.byOffset = &t
}

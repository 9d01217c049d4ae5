package datapath

import (
	"slices"
	"sync"
)

// StageHandle is the handle of the stage; no region has it.
const StageHandle = ^uint64(0)

// stageAlign is the alignment of an extent in bytes.
const stageAlign = 4 << 10

// extent is a range of the stage; size 0 means none.
type extent struct{ at, size int }

// stage is the area through which foreign memory goes, and a record of the paths that hold extents
// of it. A path gets more only while as much as it holds stays free for others. Otherwise a path
// whose completions are not reaped could take all of the stage, because a chunk keeps its extent
// until it is reaped. Safe for concurrent use.
type stage struct {
	mem []byte

	mu        sync.Mutex
	free      []extent // sorted by at, never adjacent
	freeBytes int      // the size of free
	held      map[*Path]int
	waiting   map[*Path]bool
}

func newStage(mem []byte) *stage {
	return &stage{mem: mem, free: []extent{{0, len(mem)}}, freeBytes: len(mem), held: map[*Path]int{}, waiting: map[*Path]bool{}}
}

// chunkMax is the size of the largest chunk of an operation: the stage has to hold several.
func (s *stage) chunkMax() int { return max(stageAlign, min(1<<20, len(s.mem)/4)&^(stageAlign-1)) }

// take returns an extent for n bytes. It returns a shorter one only if p holds nothing yet and no
// extent of n bytes is free. If it returns none, it wakes p once an extent has been returned.
func (s *stage) take(n int, p *Path) (extent, bool) {
	n = (n + stageAlign - 1) &^ (stageAlign - 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.held[p]
	if held == 0 || held+n <= s.freeBytes-n {
		largest := -1
		for i, f := range s.free {
			if f.size >= n {
				return s.cut(i, n, p), true
			}
			if largest < 0 || f.size > s.free[largest].size {
				largest = i
			}
		}
		if held == 0 && largest >= 0 {
			return s.cut(largest, s.free[largest].size, p), true
		}
	}
	s.waiting[p] = true
	return extent{}, false
}

// cut gives p the first n bytes of a free extent.
func (s *stage) cut(i, n int, p *Path) extent {
	f := s.free[i]
	if f.size == n {
		s.free = slices.Delete(s.free, i, i+1)
	} else {
		s.free[i] = extent{f.at + n, f.size - n}
	}
	s.freeBytes -= n
	s.held[p] += n
	return extent{f.at, n}
}

// leave subtracts n bytes from what p holds.
func (s *stage) leave(n int, p *Path) {
	if s.held[p] -= n; s.held[p] == 0 {
		delete(s.held, p)
	}
}

// lose takes an extent from p that no path may use again.
func (s *stage) lose(e extent, p *Path) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave(e.size, p)
}

// give returns an extent of p to the stage.
func (s *stage) give(e extent, p *Path) {
	if e.size == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave(e.size, p)
	s.freeBytes += e.size
	i, _ := slices.BinarySearchFunc(s.free, e.at, func(f extent, at int) int { return f.at - at })
	left := i > 0 && s.free[i-1].at+s.free[i-1].size == e.at
	right := i < len(s.free) && e.at+e.size == s.free[i].at
	switch {
	case left && right:
		s.free[i-1].size += e.size + s.free[i].size
		s.free = slices.Delete(s.free, i, i+1)
	case left:
		s.free[i-1].size += e.size
	case right:
		s.free[i] = extent{e.at, e.size + s.free[i].size}
	default:
		s.free = slices.Insert(s.free, i, e)
	}
	for p := range s.waiting {
		delete(s.waiting, p)
		p.wake()
	}
}

// forget removes p from the paths that give wakes.
func (s *stage) forget(p *Path) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiting, p)
}

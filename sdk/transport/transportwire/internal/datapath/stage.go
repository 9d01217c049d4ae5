package datapath

import (
	"slices"
	"sync"
)

// stageAlign is the alignment of an extent in bytes.
const stageAlign = 4 << 10

// extent is a piece of the stage; size 0 is none.
type extent struct{ at, size int }

// stage is the area through which foreign memory goes, and who uses which part of it. A path
// gets more only while as much again stays free for others: what completed counts until it
// is reaped, so one path that nobody reaps would have all of it. Safe for concurrent use.
type stage struct {
	mem []byte

	mu      sync.Mutex
	free    []extent // by at, never adjacent
	spare   int      // bytes of free
	held    map[*Path]int
	waiting map[*Path]bool
}

func newStage(mem []byte) *stage {
	return &stage{mem: mem, free: []extent{{0, len(mem)}}, spare: len(mem), held: map[*Path]int{}, waiting: map[*Path]bool{}}
}

// pieceMax is the longest piece of an operation: some have to fit beside each other.
func (s *stage) pieceMax() int { return max(stageAlign, min(1<<20, len(s.mem)/4)&^(stageAlign-1)) }

// take returns room for n bytes; for fewer only where p holds nothing yet and no more is
// free in one piece. Where there is none, p is woken once something was given back.
func (s *stage) take(n int, p *Path) (extent, bool) {
	n = (n + stageAlign - 1) &^ (stageAlign - 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.held[p]
	if held == 0 || held+n <= s.spare-n {
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
	s.spare -= n
	s.held[p] += n
	return extent{f.at, n}
}

// leave ends that p holds n bytes.
func (s *stage) leave(n int, p *Path) {
	if s.held[p] -= n; s.held[p] == 0 {
		delete(s.held, p)
	}
}

// lose takes an extent away from p that nobody may use again.
func (s *stage) lose(e extent, p *Path) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave(e.size, p)
}

// give takes an extent back from p.
func (s *stage) give(e extent, p *Path) {
	if e.size == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave(e.size, p)
	s.spare += e.size
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

// forget ends what take arranged for.
func (s *stage) forget(p *Path) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiting, p)
}

package arena

import (
	"math/bits"

	"github.com/mooncake-go/mooncake/sdk/x/slotindex"
)

// run is a row of slots of one class that a single node stands for. It is open while it has free
// slots. With 8 slots a run takes less memory than as many nodes; it has no fewer.
type run struct {
	free       uint64 // a bit for each slot
	off, slot  uint64
	class      uint32
	node       uint32
	prev, next uint32 // the open runs of the class; in an unused run, next chains the free list
	slots      uint32
	short      [maxRun]uint16 // how much smaller each extent is than its slot
}

const (
	minRun = 8
	maxRun = 64

	runPageBits = 5
	runPage     = 1 << runPageBits
)

// all is a run with nothing but free slots.
func (r *run) all() uint64 { return ^uint64(0) >> (maxRun - r.slots) }

// longest returns how many free slots are side by side at most.
func (r *run) longest() (n uint64) {
	for free := r.free; free != 0; n++ {
		free &= free << 1
	}
	return n
}

// runs are the runs of a space. Number 0 stands for none.
type runs struct {
	pages      []*[runPage]run
	reach      reaches
	free, used uint32
	longest    uint64 // bytes of a run
	byFrame    slotindex.Split
}

func (rs *runs) at(i uint32) *run { return &rs.pages[i>>runPageBits][i%runPage] }

// A space is divided into frames, for each slot size in its own way, of a fourth to half of the
// longest run. Each frame that a run reaches into leads to it: its number in byFrame is that of the
// run, and in the lowest bits which frame of the run it is.
const frameOfRun = 3

func (rs *runs) frameBits(slot uint64) int {
	return bits.Len64(min(slot*maxRun, rs.longest)) - 2
}

func frameHash(slot, frame uint64) uint64 {
	return slotindex.Mix(frame ^ bits.RotateLeft64(slot, 32))
}

// hash is what a number in byFrame was added with.
func (rs *runs) hash(number uint32) uint64 {
	r := rs.at(number >> frameOfRun)
	return frameHash(r.slot, r.off>>rs.frameBits(r.slot)+uint64(number&(1<<frameOfRun-1)))
}

// frames returns the first number of a run in byFrame and the first one after.
func (rs *runs) frames(i uint32) (first, end uint32) {
	r := rs.at(i)
	b := rs.frameBits(r.slot)
	last := r.off + uint64(r.slots)*r.slot - 1
	return i << frameOfRun, i<<frameOfRun + uint32(last>>b-r.off>>b) + 1
}

// find returns the run of a slot size that covers an offset, 0 where there is none. No run is of
// slots of more than an eighth of the longest.
func (rs *runs) find(slot, off uint64) uint32 {
	return rs.byFrame.Find(frameHash(slot, off>>rs.frameBits(slot)), func(number uint32) bool {
		r := rs.at(number >> frameOfRun)
		return r.slot == slot && off-r.off < slot*uint64(r.slots)
	}) >> frameOfRun
}

// add returns the number of a new run, of which the caller has set off and slot.
func (rs *runs) add(r run) uint32 {
	i := rs.free
	if i != 0 {
		rs.free = rs.at(i).next
	} else {
		i = max(1, rs.used)
		if i>>runPageBits == uint32(len(rs.pages)) {
			rs.pages = append(rs.pages, new([runPage]run))
		}
		rs.used = i + 1
		rs.reach.cover(i)
	}
	*rs.at(i) = r
	for n, end := rs.frames(i); n < end; n++ {
		rs.byFrame.Add(rs.hash(n), n, rs.hash)
	}
	return i
}

// drop forgets a run.
func (rs *runs) drop(i uint32) {
	for n, end := rs.frames(i); n < end; n++ {
		rs.byFrame.Remove(rs.hash(n), n)
	}
	*rs.at(i) = run{next: rs.free}
	rs.free = i
}

// link puts a run in front of a list of open ones.
func (rs *runs) link(head *uint32, i uint32) {
	r := rs.at(i)
	r.prev, r.next = 0, *head
	if r.next != 0 {
		rs.at(r.next).prev = i
	}
	*head = i
}

func (rs *runs) unlink(head *uint32, i uint32) {
	r := rs.at(i)
	if r.next != 0 {
		rs.at(r.next).prev = r.prev
	}
	if r.prev != 0 {
		rs.at(r.prev).next = r.next
	} else {
		*head = r.next
	}
}

// addRun makes a node of kind row the run of n slots that it covers; free are the free ones.
func (s *space) addRun(node, c uint32, n, free uint64, short []uint16) uint32 {
	off, slot := s.ranges.nodes.at(node).off(), s.classes.all[c].slot
	r := run{free: free, off: off, slot: slot, class: c, node: node, slots: uint32(n)}
	copy(r.short[:], short)
	i := s.runs.add(r)
	s.ranges.nodes.at(node).a = i
	s.classes.all[c].runs++
	if free != 0 {
		s.openRun(i)
		s.runs.reach.forget(i)
	}
	return i
}

func (s *space) openRun(i uint32) {
	c := s.runs.at(i).class
	if s.classes.all[c].open == 0 {
		s.classes.enter(c, withOpen)
	}
	s.runs.link(&s.classes.all[c].open, i)
}

func (s *space) closeRun(i uint32) {
	c := s.runs.at(i).class
	s.runs.unlink(&s.classes.all[c].open, i)
	if s.classes.all[c].open == 0 {
		s.classes.exit(c, withOpen)
	}
}

// dropRun forgets an open run; its node remains.
func (s *space) dropRun(i uint32) {
	s.closeRun(i)
	s.classes.all[s.runs.at(i).class].runs--
	s.runs.drop(i)
}

// fromOpen makes the first free slot of a class's open runs a live extent and returns its offset;
// false when there is none, or none of the first run is aligned.
func (s *space) fromOpen(c uint32, size, align uint64) (off uint64, ok bool) {
	i := s.classes.all[c].open
	if i == 0 {
		return 0, false
	}
	r := s.runs.at(i)
	for free := r.free; free != 0; free &= free - 1 {
		at := uint64(bits.TrailingZeros64(free))
		if off = r.off + at*r.slot; off&(align-1) == 0 {
			r.free &^= 1 << at
			r.short[at%maxRun] = uint16(r.slot - size)
			if r.free == 0 {
				s.closeRun(i)
			}
			s.joined(c, size)
			return off, true
		}
	}
	return 0, false
}

// freeSlot gives back an extent of a run that covers its offset; false when it is not live.
func (s *space) freeSlot(i uint32, off, size uint64) bool {
	r := s.runs.at(i)
	at := (off - r.off) / r.slot
	if r.off+at*r.slot != off || r.free>>at&1 != 0 || uint64(r.short[at%maxRun]) != r.slot-size {
		return false
	}
	if r.free == 0 {
		s.openRun(i)
	}
	s.runs.reach.forget(i)
	c := r.class
	if r.free |= 1 << at; r.free == r.all() {
		node := r.node
		s.dropRun(i)
		s.release(node)
	}
	s.left(c, size)
	return true
}

// shed gives the free slots of an open run to the free ranges and returns the longest that came of
// it. What is live goes on in smaller runs, or one by one.
func (s *space) shed(i uint32) (longest uint64) {
	r := *s.runs.at(i)
	s.dropRun(i)
	ns := &s.ranges.nodes
	next := ns.at(r.node).next
	for end := uint64(r.slots); end > 0; {
		// The slots from begin to end are alike.
		free := r.free >> (end - 1) & 1
		alike := r.free ^ (free - 1) // ones where slots are like the last
		begin := end - uint64(bits.LeadingZeros64(^(alike << (maxRun - end))))
		node := r.node
		if begin > 0 {
			node = ns.insertBefore(next, r.off+begin*r.slot, row)
		}
		if free != 0 {
			longest = max(longest, s.release(node))
		} else {
			s.settle(node, r.class, r.short[begin:end])
		}
		next, end = node, begin
	}
	return longest
}

// settle makes a node of slots that are all live a run, or a node for each.
func (s *space) settle(node, c uint32, short []uint16) {
	if len(short) >= minRun {
		s.addRun(node, c, uint64(len(short)), 0, short)
		return
	}
	ns := &s.ranges.nodes
	off, slot, next := ns.at(node).off(), s.classes.all[c].slot, ns.at(node).next
	for i := len(short) - 1; i > 0; i-- {
		next = ns.insertBefore(next, off+uint64(i)*slot, live)
		s.enlist(next, c, uint32(short[i]))
	}
	ns.at(node).set(off, live)
	s.enlist(node, c, uint32(short[0]))
}

package arena

import (
	"math"
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

// reaches are upper bounds, in fine granules: the first level has one for each run, each other
// level the largest for so many of the level below.
type reaches [3][]uint32

const (
	reachBits = 5
	// anyReach is the reach of a run that must be examined.
	anyReach = math.MaxUint32
)

// cover makes the entries of a run.
func (rs *reaches) cover(i uint32) {
	for level := range rs {
		for uint32(len(rs[level])) <= i {
			rs[level] = append(rs[level], 0)
		}
		i >>= reachBits
	}
}

// forget marks a run as one that must be examined.
func (rs *reaches) forget(i uint32) {
	for level := range rs {
		if rs[level][i] == anyReach {
			return // So have the levels above.
		}
		rs[level][i] = anyReach
		i >>= reachBits
	}
}

package evictsim

import "container/heap"

// belady follows Belady's rule with the whole sequence of accesses known: it keeps the blocks that
// are needed soonest, and declines to insert one that is needed later than all that are there. No
// replacement hits more blocks. It returns for each access whether it is a hit.
//
// Blocks are numbered from 0 without large gaps: the memory is 8 bytes for the highest number and
// about 17 for each access.
func belady(blocks []uint32, capacity int) (hit []bool) {
	next := nextUse(blocks)
	// A block in the pool is known by the access that will need it, which is no other's.
	hit = make([]bool, len(blocks))
	var pool laterFirst // also has accesses that are past; they never come to the top of a full pool
	held := 0
	for i, n := range next {
		if hit[i] {
			held--
		}
		switch {
		case n == never || capacity <= 0:
		case held < capacity:
			heap.Push(&pool, n)
			hit[n] = true
			held++
		case pool[0] > n:
			hit[pool[0]] = false
			hit[n] = true
			pool[0] = n
			heap.Fix(&pool, 0)
		}
	}
	return hit
}

// never stands for an access that does not come.
const never = -1

// nextUse returns for each access the next one to the same block.
func nextUse(blocks []uint32) []int {
	highest := uint32(0)
	for _, b := range blocks {
		highest = max(highest, b)
	}
	seen := make([]int, int(highest)+1)
	for i := range seen {
		seen[i] = never
	}
	next := make([]int, len(blocks))
	for i := len(blocks) - 1; i >= 0; i-- {
		next[i] = seen[blocks[i]]
		seen[blocks[i]] = i
	}
	return next
}

// laterFirst is a heap of accesses, the latest on top.
type laterFirst []int

func (h laterFirst) Len() int           { return len(h) }
func (h laterFirst) Less(i, j int) bool { return h[i] > h[j] }
func (h laterFirst) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *laterFirst) Push(x any) { *h = append(*h, x.(int)) }

// Pop implements heap.Interface.
func (h *laterFirst) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

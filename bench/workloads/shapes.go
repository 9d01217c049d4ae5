package workloads

import (
	"fmt"

	"github.com/mooncake-go/mooncake/bench/drivers"
)

// shape is what one call moves: count objects of size bytes.
type shape struct{ size, count int }

// shapes are what users move: one object a call, and batches of small ones.
func shapes() []shape {
	return []shape{
		{4 << 10, 1}, {64 << 10, 1}, {1 << 20, 1}, {4 << 20, 1}, {16 << 20, 1},
		{4 << 10, 64}, {64 << 10, 32}, {1 << 20, 16},
	}
}

func (s shape) String() string {
	if s.count == 1 {
		return sizeName(s.size)
	}
	return fmt.Sprintf("%d x %s", s.count, sizeName(s.size))
}

func sizeName(n int) string {
	if n >= 1<<20 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}

const (
	// poolBytes is the memory of every pool.
	poolBytes = 2 << 30
	// warmBytes of it are touched before anything is measured; a master evicts when it is fuller.
	warmBytes = 1600 << 20
	// putBytes is the most that one job puts, beside the sets that are read.
	putBytes = 640 << 20
)

// preparation is the sets that gets of all shapes read.
func preparation() drivers.Job {
	return drivers.Job{Warm: warmBytes, Sets: drivers.Sets(4<<10, 64<<10, 1<<20, 4<<20, 16<<20)}
}

// job is puts or gets of a shape by threads.
func (b *bench) job(do string, s shape, threads int) drivers.Job {
	return drivers.Job{Do: do, Size: s.size, Count: s.count, Threads: threads, Seconds: b.Seconds, Limit: putBytes}
}

func threadsName(n int) string {
	if n == 1 {
		return "1 thread"
	}
	return fmt.Sprintf("%d threads", n)
}

package memory

import (
	"runtime"
	"sync"
	"syscall"
)

// touchFrom and touchCores are from where on the pages of a region are touched in parallel.
const (
	touchFrom  = 4 << 30
	touchCores = 4
	touchMost  = 16
	touchBlock = 64 << 20
	// populateWrite is MADV_POPULATE_WRITE: make the pages present and writable, without
	// changing what is in them.
	populateWrite = 23
)

// touchPages makes the pages of a large region present from many threads, since the kernel
// would do it from one thread for each device while it registers them.
func (g *Registry) touchPages(r *Region) {
	cores := runtime.GOMAXPROCS(0)
	mode := g.env.Config.ParallelRegistration
	if r.GPU || mode == 0 || mode < 0 && (len(r.mem) < touchFrom || cores < touchCores) {
		return
	}
	const page = 4096
	first := (r.Start + page - 1) &^ (page - 1)
	last := r.end() &^ (page - 1)
	blocks := make(chan uint64)
	var wg sync.WaitGroup
	for range min(max(cores, 1), touchMost) {
		wg.Go(func() {
			for at := range blocks {
				// Older kernels do not know it; then registering takes longer.
				_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, uintptr(at), uintptr(min(touchBlock, last-at)), populateWrite)
			}
		})
	}
	for at := first; at < last; at += touchBlock {
		blocks <- at
	}
	close(blocks)
	wg.Wait()
}

package memory

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// pinLimit returns RLIMIT_MEMLOCK in bytes, the largest number where it does not bind.
func pinLimit() uint64 {
	if text, err := os.ReadFile("/proc/self/status"); err == nil {
		for line := range strings.Lines(string(text)) {
			if hex, ok := strings.CutPrefix(line, "CapEff:"); ok {
				if caps, err := strconv.ParseUint(strings.TrimSpace(hex), 16, 64); err == nil && caps&(1<<unix.CAP_IPC_LOCK) != 0 {
					return ^uint64(0)
				}
			}
		}
	}
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l); err != nil {
		return ^uint64(0)
	}
	return l.Cur
}

// touchFrom and touchCores are from where on the pages of a region are touched in parallel.
const (
	touchFrom  = 4 << 30
	touchCores = 4
	touchMost  = 16
	touchBlock = 64 << 20
)

// touchPages makes the pages of a large region present from many threads, since the kernel
// would do it from one thread for each device while it registers them. The mode is the setting
// parallel_registration.
func touchPages(mem []byte, mode int) {
	cores := runtime.GOMAXPROCS(0)
	if mode == 0 || mode < 0 && (len(mem) < touchFrom || cores < touchCores) {
		return
	}
	const page = 4096
	start := AddressOf(mem)
	first, last := (start+page-1)&^(page-1)-start, (start+uint64(len(mem)))&^(page-1)-start
	if first >= last || last > uint64(len(mem)) {
		return // Less than a page.
	}
	mem = mem[first:last]
	workers := min(cores, touchMost)
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			for at := i * touchBlock; at < len(mem); at += workers * touchBlock {
				// This makes pages present and writable, without changing what is in them. Older kernels
				// do not know it; then registering takes longer.
				_ = unix.Madvise(mem[at:min(at+touchBlock, len(mem))], unix.MADV_POPULATE_WRITE)
			}
		})
	}
	wg.Wait()
}

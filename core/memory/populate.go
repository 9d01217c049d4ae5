package memory

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// populateStep is how much of a block one call makes the kernel provide, in bytes. It is
// a multiple of every page size up to 1 GiB's half, and small enough to share out.
const populateStep = 256 << 20

// populateAll calls one for every step bytes of mem, from as many threads as there are CPUs
// for this process: clearing pages is what takes the time, and one thread cannot use the
// machine's bandwidth. It returns the first error, after all have stopped.
func populateAll(mem []byte, step int, one func([]byte) error) error {
	steps := (len(mem) + step - 1) / step
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), steps) {
		wg.Go(func() {
			for failed.Load() == nil {
				i := int(next.Add(1)) - 1
				if i >= steps {
					return
				}
				if err := one(mem[i*step : min(len(mem), (i+1)*step)]); err != nil {
					failed.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// populate makes the kernel provide the pages of mem. It keeps what is in them.
func (system) populate(mem []byte) error {
	err := unix.Madvise(mem, unix.MADV_POPULATE_WRITE)
	if !errors.Is(err, unix.EINVAL) {
		return err
	}
	touch(mem) // Kernels before 5.14.
	return nil
}

// touch writes to every page, and changes nothing.
func touch(mem []byte) {
	for i := 0; i < len(mem); i += os.Getpagesize() {
		atomic.OrUint32((*uint32)(unsafe.Pointer(&mem[i])), 0)
	}
}

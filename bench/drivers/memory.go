package drivers

import (
	"context"
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// Memory copies memory as a pool in the process of its client would at best: without looking
// anything up.
func Memory(ctx context.Context, in io.Reader, out io.Writer) error {
	mem, err := newArea()
	if err != nil {
		return err
	}
	w := &memoryWorker{area: mem}
	return serve(ctx, w, in, out)
}

type memoryWorker struct {
	area area
	pool []byte
}

// do copies between the area of a thread and a pool of as many bytes as the job goes over.
func (w *memoryWorker) do(_ context.Context, j Job) (Answer, error) {
	if j.Do != Put && j.Do != Get {
		return Answer{}, unknown(j)
	}
	over := setBytes(j.Size)
	if j.Do == Put {
		over = max(j.Limit, j.Size*j.Count)
	}
	if err := w.grow(over); err != nil {
		return Answer{}, err
	}
	threads := make([]thread, j.Threads)
	for t := range threads {
		mem, err := w.area.of(t, j)
		if err != nil {
			return Answer{}, err
		}
		scribble(mem)
		extents := max(1, over/len(mem))
		from := t * extents / j.Threads
		threads[t] = thread{calls: 1 << 30, do: func(c int) error {
			extent := w.pool[(from+c)%extents*len(mem):][:len(mem)]
			if j.Do == Put {
				copy(extent, mem)
			} else {
				copy(mem, extent)
			}
			return nil
		}}
	}
	p, err := together(j.PIDs, threads, seconds(j.Seconds))
	return Answer{Phases: map[string]Phase{j.Do: p}}, err
}

// grow makes the pool at least so large, and touches it.
func (w *memoryWorker) grow(size int) error {
	if len(w.pool) >= size {
		return nil
	}
	if w.pool != nil {
		if err := unix.Munmap(w.pool); err != nil {
			return err
		}
		w.pool = nil
	}
	pool, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_POPULATE)
	if err != nil {
		return fmt.Errorf("memory to copy: %w", err)
	}
	scribble(pool)
	w.pool = pool
	return nil
}

// scribble fills memory with bytes that are not zero: some processors copy zeros half again as fast as the bytes of pages,
// and untouched memory is one page of zeros, which stays in a cache.
func scribble(b []byte) {
	for i := range b {
		b[i] = byte(i) | 1
	}
}

package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// corruptor damages a store's memory once, without notice, as a broken memory
// module or a stray write would.
type corruptor struct {
	pool  *pool
	total int
	done  bool
}

func (c *corruptor) tick(_ context.Context, requests uint64) (note string, err error) {
	share := c.pool.opts.Corrupt
	if share == 0 || c.done || float64(requests) < share*float64(c.total) {
		return "", nil
	}
	c.done = true
	victim := c.pool.stores[0]
	pages, err := flip(victim.PID(), int64(c.pool.opts.PageSize))
	return fmt.Sprintf("flipped a byte in each of %d pages of %s's memory after %d of %d requests", pages, victim.Name, requests, c.total), err
}

// flip changes one byte of every page of a store's segments. They are shared memory, so
// the process's descriptors lead to them.
func flip(pid int, pageSize int64) (pages int, err error) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	fds, err := os.ReadDir(dir)
	if err != nil {
		return 0, fmt.Errorf("demo: look for the store's memory: %w", err)
	}
	for _, fd := range fds {
		path := filepath.Join(dir, fd.Name())
		if target, err := os.Readlink(path); err != nil || !strings.HasPrefix(target, "/memfd:mooncake-segment") {
			continue
		}
		n, err := flipFile(path, pageSize)
		pages += n
		if err != nil {
			return pages, fmt.Errorf("demo: change the store's memory: %w", err)
		}
	}
	if pages == 0 {
		return 0, errors.New("demo: the store's memory is not shared memory on this machine, so it cannot be damaged from outside")
	}
	return pages, nil
}

func flipFile(path string, pageSize int64) (pages int, err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	b := make([]byte, 1)
	for at := pageSize / 3; ; at += pageSize {
		if _, err := f.ReadAt(b, at); errors.Is(err, io.EOF) {
			return pages, nil
		} else if err != nil {
			return pages, err
		}
		b[0] ^= 0x10
		if _, err := f.WriteAt(b, at); err != nil {
			return pages, err
		}
		pages++
	}
}

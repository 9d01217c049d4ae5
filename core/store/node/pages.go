package node

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/core/memory"
)

// pages is the memory of a ledger that ends with the process.
type pages struct{ b []byte }

func (p *pages) Bytes() []byte { return p.b }

// Resize implements ledger.Memory.
func (p *pages) Resize(n int) error {
	b := make([]byte, n)
	copy(b, p.b)
	p.b = b
	return nil
}

// ledgerMemory is the memory of a ledger that outlives the process.
type ledgerMemory struct {
	file *os.File
	page int // the size of its pages, in bytes
	m    *mapping
	// outgrown is why the ledger is no longer in the file, which holds none from then on.
	outgrown atomic.Pointer[error]
}

// mapping is what a ledgerMemory has mapped. Nothing refers to it any more when it is unmapped.
type mapping struct{ b []byte }

// newLedgerMemory makes empty memory in an empty file, which is the memory's from then on.
func newLedgerMemory(f *os.File) (*ledgerMemory, error) {
	huge, err := pagesOf(f)
	if err == nil {
		err = extend(f, 0, int(pageSize(huge)))
	}
	if err != nil {
		_ = f.Close() // The failure is the news.
		return nil, err
	}
	return mapLedger(f)
}

// mapLedger maps a file, which is the memory's from then on.
func mapLedger(f *os.File) (*ledgerMemory, error) {
	info, err := f.Stat()
	var huge memory.HugePages
	if err == nil {
		huge, err = pagesOf(f)
	}
	if err == nil && memory.InFile(f) { // It may have holes.
		err = memory.Reserve(f, 0, info.Size())
	}
	var b []byte
	if err == nil {
		b, err = mapShared(f, int(info.Size()))
	}
	if err != nil {
		_ = f.Close() // The failure is the news.
		return nil, fmt.Errorf("map the ledger: %w", err)
	}
	mem := &ledgerMemory{file: f, page: int(pageSize(huge)), m: &mapping{b}}
	runtime.AddCleanup(mem, func(m *mapping) { _ = unix.Munmap(m.b) }, mem.m)
	return mem, nil
}

func mapShared(f *os.File, n int) ([]byte, error) {
	b, err := unix.Mmap(int(f.Fd()), 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return b, os.NewSyscallError("mmap", err)
}

// extend makes a file longer. After an error it is as it was.
func extend(f *os.File, from, to int) error {
	if err := f.Truncate(int64(to)); err != nil {
		return err
	}
	if !memory.InFile(f) {
		return nil
	}
	err := memory.Reserve(f, int64(from), int64(to))
	if err != nil {
		_ = f.Truncate(int64(from)) // The failure is the news.
	}
	return err
}

// Bytes implements ledger.Memory.
func (l *ledgerMemory) Bytes() []byte { return l.m.b }

// Resize implements ledger.Memory. Where the file cannot grow, the ledger goes on in memory that ends with the process.
func (l *ledgerMemory) Resize(n int) error {
	n = (n + l.page - 1) / l.page * l.page
	if l.outgrown.Load() != nil {
		return l.moveOut(n)
	}
	old, err := len(l.m.b), error(nil)
	if n > old {
		err = extend(l.file, old, n)
	}
	var b []byte
	if err == nil {
		b, err = mapShared(l.file, n)
	}
	if err != nil {
		if moved := l.moveOut(n); moved != nil {
			return errors.Join(err, moved)
		}
		l.outgrown.Store(&err)
		return nil
	}
	l.replace(b)
	if n < old {
		return l.file.Truncate(int64(n))
	}
	return nil
}

// replace makes b the memory.
func (l *ledgerMemory) replace(b []byte) {
	_ = unix.Munmap(l.m.b) // It was mapped as a whole.
	l.m.b = b
}

// moveOut moves the ledger to n bytes of memory that ends with the process, and leaves none behind.
func (l *ledgerMemory) moveOut(n int) error {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	copy(b, l.m.b)
	clear(l.m.b[:min(len(l.m.b), os.Getpagesize())]) // The header.
	l.replace(b)
	return nil
}

// pagesOf returns the size of the pages of a file.
func pagesOf(f *os.File) (memory.HugePages, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return 0, fmt.Errorf("fstatfs: %w", err)
	}
	if st.Type == unix.HUGETLBFS_MAGIC {
		return memory.HugePages(st.Bsize), nil
	}
	return memory.HugeNone, nil
}

// pageSize is the size of pages in bytes.
func pageSize(huge memory.HugePages) uint64 { return max(uint64(huge), uint64(os.Getpagesize())) }

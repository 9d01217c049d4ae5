package node

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
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
	m    *mapping
}

// mapping is what a ledgerMemory has mapped. Nothing refers to it any more when it is unmapped.
type mapping struct{ b []byte }

// newLedgerMemory makes empty memory.
func newLedgerMemory() (*ledgerMemory, error) {
	fd, err := unix.MemfdCreate("mooncake-ledger", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), "mooncake-ledger")
	if err := f.Truncate(int64(os.Getpagesize())); err != nil {
		_ = f.Close() // The failure is the news.
		return nil, err
	}
	return mapLedger(f)
}

// mapLedger maps a file, which is the memory's from then on.
func mapLedger(f *os.File) (*ledgerMemory, error) {
	info, err := f.Stat()
	var b []byte
	if err == nil {
		b, err = unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		_ = f.Close() // The failure is the news.
		return nil, fmt.Errorf("map the ledger: %w", err)
	}
	mem := &ledgerMemory{file: f, m: &mapping{b}}
	runtime.AddCleanup(mem, func(m *mapping) { _ = unix.Munmap(m.b) }, mem.m)
	return mem, nil
}

// Bytes implements ledger.Memory.
func (l *ledgerMemory) Bytes() []byte { return l.m.b }

// Resize implements ledger.Memory.
func (l *ledgerMemory) Resize(n int) error {
	page := os.Getpagesize()
	n = (n + page - 1) / page * page
	if n > len(l.m.b) {
		if err := l.file.Truncate(int64(n)); err != nil {
			return err
		}
	}
	b, err := unix.Mremap(l.m.b, n, unix.MREMAP_MAYMOVE)
	if err != nil {
		return os.NewSyscallError("mremap", err)
	}
	l.m.b = b
	return l.file.Truncate(int64(n))
}

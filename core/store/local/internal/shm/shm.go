// Package shm maps memory that two processes share. A process that maps memory of another one is
// safe from its owner only if the memory cannot shrink: an access to a removed page kills the
// reader with SIGBUS. The seals of a memfd guarantee that, and Adopt insists on them.
package shm

import (
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Mapping is shared memory in this process. Close gives back the mapping and the descriptor.
type Mapping struct {
	mem []byte
	fd  int
}

// Bytes returns the memory.
func (m *Mapping) Bytes() []byte { return m.mem }

// FD returns the descriptor, valid until Close.
func (m *Mapping) FD() int { return m.fd }

// Close unmaps the memory, which must not be used afterwards.
func (m *Mapping) Close() error {
	err := unix.Munmap(m.mem)
	if e := unix.Close(m.fd); err == nil {
		err = e
	}
	m.mem, m.fd = nil, -1
	return errs.Wrap(errs.Internal, "shared memory: unmap", err)
}

// Create makes size bytes of memory, rounded up to whole pages, that other processes can
// map and no process can shrink. Its pages are provided with the first touch.
func Create(name string, size uint64, pages memory.HugePages) (*Mapping, error) {
	op := "shared memory: create " + memory.Human(size)
	flags, page := unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING, uint64(os.Getpagesize())
	switch pages {
	case memory.Huge2M:
		flags, page = flags|unix.MFD_HUGETLB|unix.MFD_HUGE_2MB, uint64(pages)
	case memory.Huge1G:
		flags, page = flags|unix.MFD_HUGETLB|unix.MFD_HUGE_1GB, uint64(pages)
	}
	if size == 0 || size > math.MaxInt64-page {
		return nil, errs.New(errs.InvalidParams, op, "the size must be above 0 and fit an address space")
	}
	size = (size + page - 1) / page * page
	fd, err := unix.MemfdCreate(name, flags)
	if err != nil {
		return nil, errs.WithHint(errs.Wrap(errs.Internal, op, err), "the kernel or a seccomp profile does not permit memfd_create, which sharing memory needs")
	}
	m := &Mapping{fd: fd}
	if err = unix.Ftruncate(fd, int64(size)); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW)
	}
	if err == nil {
		m.mem, err = unix.Mmap(fd, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		_ = unix.Close(fd) // What failed is the news.
		return nil, errs.WithHint(errs.Wrap(errs.Internal, op, err), "check `ulimit -v` and free huge pages, or ask for less")
	}
	return m, nil
}

// Freeze makes this process the only one that can write to the memory from now on: others can map it
// for reading only.
func (m *Mapping) Freeze() error {
	_, err := unix.FcntlInt(uintptr(m.fd), unix.F_ADD_SEALS, unix.F_SEAL_FUTURE_WRITE|unix.F_SEAL_SEAL)
	return errs.WithHint(errs.Wrap(errs.Internal, "shared memory: make it read-only for others", err), "this needs Linux 5.1 or later")
}

// Terms are what Adopt asks of memory of another process.
type Terms struct {
	// Size in bytes to be mapped from the beginning.
	Size uint64
	// Write maps for reading and writing.
	Write bool
	// Huge accepts huge pages. Their owner can take pages out of them, and none may be
	// left when this process touches them: only for owners that may kill this process anyway.
	Huge bool
}

// Adopt maps memory of another process. On success fd belongs to the mapping, on an error
// it stays the caller's. InvalidParams for anything but a memfd that holds Size bytes and is
// sealed against shrinking.
func Adopt(fd int, t Terms) (*Mapping, error) {
	const op = "shared memory: map that of another process"
	if t.Size == 0 || t.Size > math.MaxInt64 {
		return nil, errs.New(errs.InvalidParams, op, "%d bytes cannot be mapped", t.Size)
	}
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil {
		return nil, errs.New(errs.InvalidParams, op, "the descriptor is not a memfd: %v", err)
	}
	if seals&unix.F_SEAL_SHRINK == 0 {
		return nil, errs.New(errs.InvalidParams, op, "the memfd is not sealed against shrinking (F_SEAL_SHRINK)")
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, errs.Wrap(errs.InvalidParams, op, err)
	}
	if st.Size < 0 || uint64(st.Size) < t.Size {
		return nil, errs.New(errs.InvalidParams, op, "the memfd has %d bytes, %d were announced", st.Size, t.Size)
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return nil, errs.Wrap(errs.InvalidParams, op, err)
	}
	if fs.Type == unix.HUGETLBFS_MAGIC && !t.Huge {
		return nil, errs.New(errs.InvalidParams, op, "it has huge pages and belongs to another user; use ordinary pages")
	}
	prot := unix.PROT_READ
	if t.Write {
		prot |= unix.PROT_WRITE
	}
	mem, err := unix.Mmap(fd, 0, int(t.Size), prot, unix.MAP_SHARED)
	if err != nil {
		return nil, errs.Wrap(errs.InvalidParams, op, fmt.Errorf("%s: %w", memory.Human(t.Size), err))
	}
	return &Mapping{mem: mem, fd: fd}, nil
}

// Disown unmaps the memory and leaves the descriptor to the caller.
func (m *Mapping) Disown() {
	_ = unix.Munmap(m.mem) // It was mapped a moment ago.
	m.mem, m.fd = nil, -1
}

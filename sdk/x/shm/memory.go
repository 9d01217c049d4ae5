package shm

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Memory is a mapped range of a memory file.
type Memory struct {
	fd     int // -1 if the Memory owns no descriptor
	bytes  []byte
	close1 sync.Once
	err    error
}

// Create makes a memory file of size bytes, seals it against changes of its size, and maps it. The
// memory is zero. /proc/PID/maps shows the name.
func Create(name string, size int) (*Memory, error) {
	if size <= 0 {
		return nil, fmt.Errorf("shared memory %q: %d bytes, want more than 0", name, size)
	}
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("shared memory %q: %w", name, os.NewSyscallError("memfd_create", err))
	}
	m := &Memory{fd: fd}
	err = os.NewSyscallError("ftruncate", unix.Ftruncate(fd, int64(size)))
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
		err = os.NewSyscallError("fcntl(F_ADD_SEALS)", err)
	}
	if err == nil {
		m.bytes, err = mapFile(fd, 0, size, 0, unix.PROT_READ|unix.PROT_WRITE)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("shared memory %q of %d bytes: %w", name, size, err), m.Close())
	}
	return m, nil
}

// MapOptions say how Map maps.
type MapOptions struct {
	// Offset is where the mapping begins in the file, a multiple of the page size.
	Offset int64
	// Size is the number of bytes.
	Size int
	// ReadOnly makes the memory read-only.
	ReadOnly bool
	// Near is a preferred address, 0 for none. Map uses another one if something is mapped there.
	Near uintptr
}

// Map maps a memory file that another process made. The caller still owns the descriptor and may
// close it afterwards. Map returns an error if the file can shrink (see CheckSealed) or is too
// small.
func Map(fd int, o MapOptions) (*Memory, error) {
	if o.Size <= 0 || o.Offset < 0 || o.Offset%int64(os.Getpagesize()) != 0 {
		return nil, fmt.Errorf("map shared memory: %d bytes at offset %d; the size must be above 0 and the offset a multiple of the page size", o.Size, o.Offset)
	}
	size, err := CheckSealed(fd)
	if err != nil {
		return nil, fmt.Errorf("map shared memory: %w", err)
	}
	if o.Offset > size || int64(o.Size) > size-o.Offset {
		return nil, fmt.Errorf("map shared memory: %d bytes at offset %d reach past the end of the file (%d bytes)", o.Size, o.Offset, size)
	}
	prot := unix.PROT_READ | unix.PROT_WRITE
	if o.ReadOnly {
		prot = unix.PROT_READ
	}
	b, err := mapFile(fd, o.Offset, o.Size, o.Near, prot)
	if err != nil {
		return nil, fmt.Errorf("map shared memory of %d bytes: %w", o.Size, err)
	}
	return &Memory{fd: -1, bytes: b}, nil
}

// CheckSealed returns the size of a memory file. It seals the file against shrinking, and returns
// an error if it cannot: SIGBUS kills a process that has mapped such a file when another process
// truncates it. It also seals the file against further seals, so that a process that gets the
// descriptor cannot keep others from writing (F_SEAL_FUTURE_WRITE).
func CheckSealed(fd int) (size int64, err error) {
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil {
		return 0, fmt.Errorf("the descriptor is no memory file that can be sealed (memfd_create): %w", err)
	}
	if seals&unix.F_SEAL_SEAL == 0 || seals&unix.F_SEAL_SHRINK == 0 {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL)
	}
	if err != nil && seals&unix.F_SEAL_SHRINK == 0 { // A read-only descriptor cannot add seals, and needs only this one.
		return 0, fmt.Errorf("the memory file can shrink, and cannot be sealed against it (MFD_ALLOW_SEALING): %w", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, os.NewSyscallError("fstat", err)
	}
	return st.Size, nil
}

// Bytes returns the memory. It must not be used after Close.
func (m *Memory) Bytes() []byte { return m.bytes }

// FD returns the descriptor of a Memory made by Create, which the Memory still owns, or -1 for one
// made by Map.
func (m *Memory) FD() int { return m.fd }

// Close unmaps the memory and closes its descriptor. It may be called again.
func (m *Memory) Close() error {
	m.close1.Do(func() {
		if m.bytes != nil {
			m.err = unmap(m.bytes)
			m.bytes = nil
		}
		if m.fd >= 0 {
			m.err = errors.Join(m.err, unix.Close(m.fd))
			m.fd = -1
		}
	})
	return m.err
}

// mapFile maps at the address near if nothing is mapped there, and anywhere otherwise.
func mapFile(fd int, offset int64, size int, near uintptr, prot int) ([]byte, error) {
	if near != 0 {
		at := *(*unsafe.Pointer)(unsafe.Pointer(&near)) // An address of no Go object.
		p, err := unix.MmapPtr(fd, offset, at, uintptr(size), prot, unix.MAP_SHARED|unix.MAP_FIXED_NOREPLACE)
		if err == nil {
			return unsafe.Slice((*byte)(p), size), nil
		}
	}
	p, err := unix.MmapPtr(fd, offset, nil, uintptr(size), prot, unix.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	return unsafe.Slice((*byte)(p), size), nil
}

func unmap(b []byte) error {
	return os.NewSyscallError("munmap", unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(b)), uintptr(len(b))))
}

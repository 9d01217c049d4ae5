package file

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/plugins/tier-file/internal/extent"
	"github.com/mooncake-go/mooncake/plugins/tier-file/internal/record"
)

const hugePage = 2 << 20

// staging is the memory through which values are copied: on transparent huge pages where the kernel
// has them, because a device takes a request in few segments then. The lock of the tier guards it.
type staging struct {
	mem   []byte
	whole []byte // the mapping that mem is in
	space extent.Space
	size  uint64
	// pages says which pages it is on, for the log.
	pages string
}

func newStaging(size uint64) (*staging, error) {
	size = (size + hugePage - 1) &^ (hugePage - 1)
	s := &staging{size: size, pages: "transparent huge pages"}
	var err error
	// Not MAP_HUGETLB: reserved huge pages are counted out for the memory that they were reserved for.
	s.whole, err = unix.Mmap(-1, 0, int(size+hugePage), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("%d bytes of staging memory: %w", size, err)
	}
	skip := -uint64(address(s.whole)) % hugePage
	s.mem = s.whole[skip : skip+size]
	if err := unix.Madvise(s.mem, unix.MADV_HUGEPAGE); err != nil {
		s.pages = "small pages: " + err.Error()
	}
	s.space.Free(0, size/record.Page)
	return s, nil
}

// get takes memory, in whole pages. It returns nil if there is not enough.
func (s *staging) get(bytes uint64) []byte {
	n := (bytes + record.Page - 1) / record.Page
	at, ok := s.space.Alloc(n)
	if !ok {
		return nil
	}
	return s.mem[at*record.Page:][: n*record.Page : n*record.Page]
}

// put gives back what get returned.
func (s *staging) put(b []byte) {
	if len(b) == 0 {
		return
	}
	s.space.Free(uint64(address(b)-address(s.mem))/record.Page, uint64(len(b))/record.Page)
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

func (s *staging) free() error { return unix.Munmap(s.whole) }

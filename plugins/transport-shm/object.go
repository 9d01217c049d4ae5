package shm

import (
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// object is the shared memory that a region lies in.
type object struct {
	fd     int
	offset uint64
	whole  bool // the region is all there is in it
	huge   bool
}

// objectOf checks that a region can be given to peers. NotSupported where it cannot: the memory is
// not shared, or could shrink under a peer.
func objectOf(in transport.Region) (object, error) {
	op := fmt.Sprintf("transport/shm: register region %d for peers", in.ID)
	if in.FD < 0 {
		return object{}, errs.WithHint(errs.New(errs.NotSupported, op, "the memory is not shared memory (it has no descriptor)"),
			"allocate it through Mooncake, or as a memfd; other transports serve it meanwhile")
	}
	size, page, err := inspect(in.FD)
	if err != nil {
		return object{}, errs.Wrap(errs.NotSupported, op, err)
	}
	o := object{fd: in.FD, offset: uint64(in.FDOffset), huge: page > uint64(os.Getpagesize())}
	if in.FDOffset < 0 || o.offset > size || uint64(len(in.Mem)) > size-o.offset {
		return object{}, errs.New(errs.InvalidParams, op, "%d bytes at offset %d are not within the %d bytes of the descriptor", len(in.Mem), in.FDOffset, size)
	}
	o.whole = o.offset == 0 && uint64(len(in.Mem))+page > size
	return o, nil
}

// inspect returns the size of shared memory and of its pages, in bytes. It is an error when the
// descriptor is not a memfd that is sealed against shrinking, and cannot be sealed.
func inspect(fd int) (size, page uint64, err error) {
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil {
		return 0, 0, fmt.Errorf("the descriptor is not a memfd: %w", err)
	}
	if seals&unix.F_SEAL_SHRINK == 0 {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK); err != nil {
			return 0, 0, fmt.Errorf("the memfd can shrink, and cannot be sealed against it (MFD_ALLOW_SEALING): %w", err)
		}
	}
	return measure(fd)
}

// measure returns the size of a file and of its pages.
func measure(fd int) (size, page uint64, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, 0, err
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return 0, 0, err
	}
	page = uint64(os.Getpagesize())
	if fs.Type == unix.HUGETLBFS_MAGIC {
		page = uint64(fs.Bsize)
	}
	if st.Size < 0 || page == 0 {
		return 0, 0, fmt.Errorf("a file of %d bytes, in pages of %d", st.Size, page)
	}
	return uint64(st.Size), page, nil
}

// terms are the properties that a peer announced for memory, and those that this side needs.
type terms struct {
	offset, length uint64
	write          bool
	foreign        bool // the peer is of another user
}

// adopt maps memory of a peer; the region begins at lead in the mapping. The descriptor stays the
// caller's. It is an error for what could end this process with SIGBUS.
func adopt(fd int, t terms) (mapping []byte, lead int, err error) {
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil {
		return nil, 0, fmt.Errorf("the peer's descriptor is not a memfd: %w", err)
	}
	if seals&unix.F_SEAL_SHRINK == 0 {
		return nil, 0, fmt.Errorf("the peer's memfd is not sealed against shrinking")
	}
	size, page, err := measure(fd)
	if err != nil {
		return nil, 0, err
	}
	if t.length == 0 || t.offset > size || t.length > size-t.offset || size > math.MaxInt64-page {
		return nil, 0, fmt.Errorf("the peer announced %d bytes at offset %d of a memfd of %d bytes", t.length, t.offset, size)
	}
	if t.foreign && page > uint64(os.Getpagesize()) {
		// Its owner can take pages out, and none may be left when this process touches them.
		return nil, 0, fmt.Errorf("the memory has huge pages and belongs to another user")
	}
	from := t.offset / page * page
	to := (t.offset + t.length + page - 1) / page * page
	prot := unix.PROT_READ
	if t.write {
		prot |= unix.PROT_WRITE
	}
	mapping, err = unix.Mmap(fd, int64(from), int(to-from), prot, unix.MAP_SHARED)
	if err != nil {
		return nil, 0, fmt.Errorf("map %d bytes of the peer: %w", to-from, err)
	}
	if to-from >= 2<<20 {
		_ = unix.Madvise(mapping, unix.MADV_HUGEPAGE) // As its owner wishes; kernels without them refuse.
	}
	return mapping, int(t.offset - from), nil
}

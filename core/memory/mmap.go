package memory

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// kernel is the part of the system that tests refuse on purpose.
type kernel interface {
	memfd(name string, flags int) (int, error)
	populate(mem []byte) error
	mbind(mem []byte, mode uintptr, nodes []int) error
}

type system struct{}

func (system) memfd(name string, flags int) (int, error) { return unix.MemfdCreate(name, flags) }

func (system) mbind(mem []byte, mode uintptr, nodes []int) error {
	var mask [(maxNode + 1) / 64]uint64
	for _, n := range nodes {
		mask[n/64] |= 1 << (n % 64)
	}
	_, _, errno := unix.Syscall6(unix.SYS_MBIND, uintptr(unsafe.Pointer(unsafe.SliceData(mem))), uintptr(len(mem)), mode,
		uintptr(unsafe.Pointer(&mask)), maxNode+2, 0) // The kernel takes one bit less than it is told.
	if errno != 0 {
		return errno
	}
	return nil
}

// The modes of mbind, as <linux/mempolicy.h> has them.
const (
	mpolPreferred  = 1
	mpolBind       = 2
	mpolInterleave = 3
)

// place binds mem, which no thread has touched yet. A system that forbids mbind (a seccomp
// profile) or lacks it is an error for Bind only: the other policies are wishes, and ok
// tells whether they came true.
func place(mem []byte, p Placement, k kernel) (ok bool, err error) {
	mode := map[Policy]uintptr{Prefer: mpolPreferred, Bind: mpolBind, Interleave: mpolInterleave}[p.Policy]
	if mode == 0 {
		return true, nil
	}
	err = k.mbind(mem, mode, p.Nodes)
	refused := errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL)
	if refused && p.Policy != Bind {
		return false, nil
	}
	return err == nil, errs.WithHint(errs.Wrap(errs.Internal, fmt.Sprintf("memory: bind to NUMA nodes %v", p.Nodes), err),
		"a container needs CAP_SYS_NICE or a seccomp profile that permits mbind; or let the node be a preference (store.numa_strict off)")
}

// mapMemory maps size bytes, over a memfd where that is permitted.
func mapMemory(size uint64, o Options, k kernel) (mem []byte, fd int, err error) {
	fd, err = open(size, o, k)
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES), errors.Is(err, unix.ENOSYS):
		mem, err = mapAnonymous(size, o)
		return mem, -1, err
	case err != nil:
		return nil, -1, errs.Wrap(errs.Internal, "memory: create shared memory", err)
	}
	if mem, err = mapAt(o.At, size, fd, unix.MAP_SHARED); err != nil {
		_ = unix.Close(fd) // Mapping failed; that is the news.
		if o.HugePages != HugeNone && o.File != nil {
			return nil, -1, noRoom(o.File, size, err) // The kernel sets huge pages aside when it maps them.
		}
		return nil, -1, mapError(size, err)
	}
	prefer(mem, o.HugePages)
	return mem, fd, nil
}

// open returns a descriptor of size bytes of shared memory, which is the caller's: a new memfd, or o.File.
func open(size uint64, o Options, k kernel) (int, error) {
	if o.File != nil {
		return adopt(o.File, size)
	}
	flags := unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	switch o.HugePages {
	case Huge2M:
		flags |= unix.MFD_HUGETLB | unix.MFD_HUGE_2MB
	case Huge1G:
		flags |= unix.MFD_HUGETLB | unix.MFD_HUGE_1GB
	}
	name := o.Name
	if name == "" {
		name = "mooncake"
	}
	fd, err := k.memfd(name, flags)
	if err != nil {
		return -1, err
	}
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		_ = unix.Close(fd)
		return -1, mapError(size, err)
	}
	seal(fd)
	return fd, nil
}

// mapAt maps size bytes for reading and writing: at an address if it is not 0 and not in use, else anywhere.
func mapAt(at, size uint64, fd, flags int) ([]byte, error) {
	const access = unix.PROT_READ | unix.PROT_WRITE
	var p unsafe.Pointer
	err := error(unix.EEXIST)
	if at != 0 {
		// A kernel before 4.17 takes the address as a wish and maps elsewhere.
		p, err = unix.MmapPtr(fd, 0, pointer(at), uintptr(size), access, flags|unix.MAP_FIXED_NOREPLACE)
	}
	if err != nil {
		p, err = unix.MmapPtr(fd, 0, nil, uintptr(size), access, flags)
	}
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(p), size), nil
}

// pointer is an address that is not in use: it is passed to the kernel and never followed.
func pointer(at uint64) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&at)) }

// prefer asks for transparent huge pages, which make the first touch of a large range many
// times cheaper. For shared memory the kernel heeds it where
// /sys/kernel/mm/transparent_hugepage/shmem_enabled is advise.
func prefer(mem []byte, huge HugePages) {
	if huge == HugeNone && len(mem) >= int(Huge2M) {
		_ = unix.Madvise(mem, unix.MADV_HUGEPAGE) // A wish; kernels without them refuse.
	}
}

func mapAnonymous(size uint64, o Options) ([]byte, error) {
	flags := unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_NORESERVE
	switch o.HugePages {
	case Huge2M:
		flags |= unix.MAP_HUGETLB | unix.MAP_HUGE_2MB
	case Huge1G:
		flags |= unix.MAP_HUGETLB | unix.MAP_HUGE_1GB
	}
	mem, err := mapAt(o.At, size, -1, flags)
	if err == nil {
		prefer(mem, o.HugePages)
	}
	return mem, mapError(size, err)
}

func mapError(size uint64, err error) error {
	if err == nil {
		return nil
	}
	return errs.WithHint(errs.Wrap(errs.Internal, "memory: map "+Human(size), err),
		"the kernel refused the mapping; check `ulimit -v`, vm.overcommit_memory and free huge pages, or ask for less")
}

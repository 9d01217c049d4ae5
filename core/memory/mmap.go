package memory

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// kernel is the part of the system that tests refuse on purpose.
type kernel interface {
	memfd(name string, flags int) (int, error)
	populate(mem []byte) error
}

type system struct{}

func (system) memfd(name string, flags int) (int, error) { return unix.MemfdCreate(name, flags) }

func (system) populate(mem []byte) error {
	err := unix.Madvise(mem, unix.MADV_POPULATE_WRITE)
	if !errors.Is(err, unix.EINVAL) {
		return err
	}
	for i := 0; i < len(mem); i += os.Getpagesize() { // Kernels before 5.14.
		mem[i] = 0
	}
	return nil
}

// mapMemory maps size bytes, over a memfd where that is permitted.
func mapMemory(size uint64, o Options, k kernel) (mem []byte, fd int, err error) {
	flags := unix.MFD_CLOEXEC
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
	fd, err = k.memfd(name, flags)
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES), errors.Is(err, unix.ENOSYS):
		mem, err = mapAnonymous(size, o.HugePages)
		return mem, -1, err
	case err != nil:
		return nil, -1, errs.Wrap(errs.Internal, "memory: create shared memory", err)
	}
	if err = unix.Ftruncate(fd, int64(size)); err == nil {
		mem, err = unix.Mmap(fd, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		_ = unix.Close(fd) // Mapping failed; that is the news.
		return nil, -1, mapError(size, err)
	}
	prefer(mem, o.HugePages)
	return mem, fd, nil
}

// prefer asks for transparent huge pages, which make the first touch of a large range many
// times cheaper. For shared memory the kernel heeds it where
// /sys/kernel/mm/transparent_hugepage/shmem_enabled is advise.
func prefer(mem []byte, huge HugePages) {
	if huge == HugeNone && len(mem) >= int(Huge2M) {
		_ = unix.Madvise(mem, unix.MADV_HUGEPAGE) // A wish; kernels without them refuse.
	}
}

func mapAnonymous(size uint64, huge HugePages) ([]byte, error) {
	flags := unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_NORESERVE
	switch huge {
	case Huge2M:
		flags |= unix.MAP_HUGETLB | unix.MAP_HUGE_2MB
	case Huge1G:
		flags |= unix.MAP_HUGETLB | unix.MAP_HUGE_1GB
	}
	mem, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, flags)
	if err == nil {
		prefer(mem, huge)
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

// checkHuge reports too few free huge pages before the kernel does so with a bare ENOMEM.
func checkHuge(root fs.FS, huge HugePages, size uint64) error {
	if huge == HugeNone {
		return nil
	}
	if root == nil {
		root = os.DirFS("/")
	}
	file := fmt.Sprintf("sys/kernel/mm/hugepages/hugepages-%dkB/free_hugepages", uint64(huge)>>10)
	need := size / uint64(huge)
	b, err := fs.ReadFile(root, file)
	if err != nil {
		return errs.WithHint(errs.New(errs.InvalidParams, "memory: allocate", "this machine has no huge pages of %s", huge),
			"turn huge pages off or boot with hugepagesz=%s", strings.TrimSuffix(huge.String(), "B"))
	}
	free, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	if err != nil || free < need {
		return errs.WithHint(errs.New(errs.InvalidParams, "memory: allocate", "%d huge pages of %s are needed, %d are free", need, huge, free),
			"reserve them with `echo %d > /%s` as root, or turn huge pages off", need, strings.Replace(file, "free_", "nr_", 1))
	}
	return nil
}

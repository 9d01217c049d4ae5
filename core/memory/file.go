package memory

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// reserveStep is how much one call reserves, in bytes. A signal ends a call, and undoes what it did.
const reserveStep = 256 << 20

// InFile reports whether f is a file of a file system, in contrast to a memfd that can be sealed. It may shrink
// under a process that has mapped it, and its file system may have no room left when a page is first touched.
func InFile(f *os.File) bool {
	seals, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0)
	return err != nil || seals&(unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK) == unix.F_SEAL_SEAL
}

// OfMachine reports whether the bytes of f lie in the machine's memory, not on a device of their own.
func OfMachine(f *os.File) bool {
	var fs unix.Statfs_t
	if unix.Fstatfs(int(f.Fd()), &fs) != nil {
		return true
	}
	return fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.HUGETLBFS_MAGIC || fs.Type == unix.RAMFS_MAGIC
}

// Reserve makes the file system of f provide the bytes from one offset to another, so that no later touch of them
// ends the process with SIGBUS. What f holds stays. InvalidParams with a Shortage where there is no room.
func Reserve(f *os.File, from, to int64) error {
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) == nil && st.Blocks*512 >= to && st.Size == to {
		return nil // It has all of it. To ask for a GiB again would take a second.
	}
	for from < to {
		n := min(reserveStep, to-from)
		err := unix.Fallocate(int(f.Fd()), 0, from, n)
		switch {
		case err == nil:
			from += n
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EOPNOTSUPP) && OfMachine(f):
			return nil // A ramfs has no bounds.
		case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.ENOMEM):
			return noRoom(f, uint64(to-from), err)
		default:
			return errs.Wrap(errs.Internal, "memory: reserve "+Human(uint64(to-from))+" in "+f.Name(), err)
		}
	}
	return nil
}

// noRoom is the error of a file system that is full.
func noRoom(f *os.File, need uint64, cause error) error {
	var fs unix.Statfs_t
	s := &Shortage{Kind: "room in a file system", Need: need, text: fmt.Sprintf("%s are needed in a file at %s, and its file system has no room for them: %v", Human(need), f.Name(), cause)}
	if unix.Fstatfs(int(f.Fd()), &fs) == nil && fs.Blocks > 0 { // A hugetlbfs without a bound says nothing.
		s.Have = fs.Bavail * uint64(fs.Bsize)
		s.text += fmt.Sprintf("; %s are free", Human(s.Have))
	}
	return s.error("ask for less, remove files there that no process uses, or enlarge the file system (mount -o remount,size=); a hugetlbfs needs vm.nr_hugepages as well")
}

// adopt returns a descriptor of a file that is as large as the block, or becomes so if it is empty.
func adopt(f *os.File, size uint64) (int, error) {
	info, err := f.Stat()
	if err != nil {
		return -1, err
	}
	if info.Size() == 0 {
		if err := f.Truncate(int64(size)); err != nil {
			return -1, err
		}
		seal(int(f.Fd()))
	} else if uint64(info.Size()) != size {
		return -1, fmt.Errorf("the memory has %d bytes instead of %d", info.Size(), size)
	}
	return unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
}

// seal makes the size of a memfd final. A process that maps memory of another is safe from its owner only if the
// memory cannot shrink. Without the seal, which any memfd takes and no other file, no other process maps it. The
// last seal keeps the processes that get the descriptor from adding others: F_SEAL_FUTURE_WRITE would keep the
// next process of a plugin from mapping the memory.
func seal(fd int) {
	_, _ = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
}

// isEmpty reports whether a file has no content yet.
func isEmpty(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Size() == 0
}

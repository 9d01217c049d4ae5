package storeservice

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// mapFile maps a range of a file, shared with the processes that map it as well. The range
// is locked against a second mount, by this process or another one, until freed is called.
//
// The file must hold the whole range, and its file system have room for what is not written yet:
// an access beyond either ends a process. No process may truncate the file while it is mapped;
// the kernel offers no way to forbid it.
//
// allow says which files may be mapped. It is asked by the path without links: one link more, and a
// path that is allowed is another file.
func mapFile(src source, allow func(path string) error) (m transfer.Memory, freed func(), err error) {
	op := "store service: map " + src.path()
	file, err := openBelow(src.dir, src.name)
	if err != nil {
		return m, nil, errs.Wrap(errs.InvalidParams, op, err)
	}
	real, err := realPath(src.dir, file)
	if err == nil {
		err = allow(real)
	}
	var mem []byte
	if err == nil {
		mem, err = mapRange(file, src)
	}
	if err != nil {
		return m, nil, errs.Wrap(errs.InvalidParams, op, errors.Join(err, file.Close()))
	}
	freed = func() {
		_ = unix.Munmap(mem) // It is what Mmap returned.
		_ = file.Close()     // This ends the lock.
	}
	return transfer.Memory{Bytes: mem[:src.size:src.size], FD: int(file.Fd()), FDOffset: int64(src.offset)}, freed, nil
}

// openBelow opens a file without leaving dir, not even through a link.
func openBelow(dir, name string) (*os.File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.OpenFile(name, os.O_RDWR|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0) // A pipe without a reader would block.
}

// realPath returns where an open file is, without links below dir. A folder that is a link itself, as
// /dev/shm may be, keeps its name.
func realPath(dir string, file *os.File) (string, error) {
	at, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", file.Fd()))
	if err != nil {
		return "", err
	}
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	name, ok := strings.CutPrefix(at, root+"/")
	if !ok {
		return "", fmt.Errorf("it is %s, outside of %s", at, root)
	}
	return dir + "/" + name, nil
}

func mapRange(file *os.File, src source) ([]byte, error) {
	var stat unix.Stat_t
	var system unix.Statfs_t
	fd := int(file.Fd())
	if err := errors.Join(unix.Fstat(fd, &stat), unix.Fstatfs(fd, &system)); err != nil {
		return nil, err
	}
	end := src.offset + src.size
	page := uint64(os.Getpagesize())
	huge := system.Type == unix.HUGETLBFS_MAGIC
	if huge {
		page = uint64(system.Bsize)
	}
	switch {
	case stat.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, errors.New("it is not a regular file")
	case uint64(stat.Size) < end:
		return nil, fmt.Errorf("it has %d bytes and ends before offset %d + size %d", stat.Size, src.offset, src.size)
	case src.offset%page != 0:
		return nil, fmt.Errorf("offset %d is not a multiple of the page size %d", src.offset, page)
	}
	// Blocks counts the whole file, so that the range needs at most this much more.
	if written := uint64(stat.Blocks) * 512; !huge && written < uint64(stat.Size) {
		need, room := min(src.size, uint64(stat.Size)-written), system.Bavail*uint64(system.Bsize)
		if need > room {
			return nil, fmt.Errorf("%s of it are not written yet and its file system has room for %s", memory.Human(need), memory.Human(room))
		}
	}
	lock := unix.Flock_t{Type: unix.F_WRLCK, Start: int64(src.offset), Len: int64(src.size)}
	if err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &lock); err != nil {
		return nil, fmt.Errorf("a part of it is mounted already: %w", err)
	}
	length := (src.size + page - 1) / page * page
	mem, err := unix.Mmap(fd, int64(src.offset), int(length), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mmap: %w", err)
	}
	return mem, nil
}

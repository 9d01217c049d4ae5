package vault

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Found is what a directory has.
type Found struct {
	// DAX says that its bytes do not lie in the machine's memory.
	DAX  bool
	Left []Left
}

// Left is what a directory has of one owner.
type Left struct {
	// Folder is its name there.
	Folder string
	// Bytes is the memory that its files occupy.
	Bytes uint64
	// Used says that a process has it.
	Used bool
}

// Of reports whether a store of a cluster and a host may take it.
func (l Left) Of(owner string) bool {
	for i := range mostOwners {
		if l.Folder == ownerName(owner, i) {
			return true
		}
	}
	return false
}

// OwnerOf is the owner of the stores of a cluster with a host name.
func OwnerOf(cluster, host string) string { return cluster + "_" + host }

// Survey returns what the directory at path has, and changes nothing. Its error is that of Open for a directory that
// is refused, and unix.ENOTDIR for what is none.
func Survey(path string) (out Found, err error) {
	base, err := openDirectory(path)
	if err != nil {
		return out, fmt.Errorf("vault: %w", err)
	}
	defer base.Close()       //nolint:errcheck // It is read only.
	out.DAX, _ = isDAX(base) // It is fit in either case.
	entries, err := base.ReadDir(-1)
	for _, e := range entries {
		if !e.IsDir() || err != nil {
			continue
		}
		var l Left
		if l, err = look(base, e.Name()); err == nil {
			out.Left = append(out.Left, l)
		} else if errors.Is(err, unix.ENOENT) {
			err = nil // Its process has just ended.
		}
	}
	return out, err
}

// look looks at the folder of an owner.
func look(base *os.File, name string) (Left, error) {
	l := Left{Folder: name}
	fd, err := unix.Openat(int(base.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return l, os.NewSyscallError("openat", err)
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close() //nolint:errcheck // It is read only.
	l.Used = errors.Is(unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
	names, err := f.Readdirnames(-1)
	for _, n := range names {
		var st unix.Stat_t
		if unix.Fstatat(fd, n, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
			l.Bytes += uint64(st.Blocks) * 512
		}
	}
	return l, err
}

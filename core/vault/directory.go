package vault

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// directory is a vault of files in a directory. An owner has a folder there, which its process locks.
type directory struct {
	path   string
	mu     sync.Mutex // guards against Close
	folder *os.File
}

// mostRaces bounds how often a folder may be removed by a process that ends while another one opens it.
const mostRaces = 16

// claim opens the files of an owner in the directory at path. It returns ErrTaken while another process has them.
// Where kept is set, it returns ErrNotKept if there are none.
func claim(path, owner string, kept bool) (*directory, error) {
	if err := checkName(owner); err != nil {
		return nil, fmt.Errorf("vault: files in %s: owner: %w", path, err)
	}
	v := &directory{path: filepath.Join(path, owner)}
	base, err := openDirectory(path)
	if err == nil {
		err = v.lock(int(base.Fd()), owner, kept)
		_ = base.Close() // It is read only.
	}
	if err != nil {
		return nil, fmt.Errorf("vault: %s: %w", v, err)
	}
	if names, err := v.Names(context.Background()); kept && err == nil && len(names) == 0 {
		return nil, fmt.Errorf("vault: %s: %w", v, errors.Join(ErrNotKept, v.Close()))
	}
	return v, nil
}

// openDirectory opens a directory that is safe to keep memory in, and fit for it.
func openDirectory(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	if err = closed(f); err == nil {
		err = fit(f)
	}
	if err != nil {
		_ = f.Close() // The failure is the news.
		return nil, err
	}
	return f, nil
}

// closed returns an error for a folder whose files another user could replace, but for root.
func closed(f *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	switch {
	case st.Uid != uint32(os.Geteuid()) && st.Uid != 0:
		return errs.WithHint(errs.New(errs.InvalidParams, "", "%s belongs to user %d, not to this user or root", f.Name(), st.Uid),
			"name a directory of the user that runs the store")
	case st.Mode&0o022 != 0:
		return errs.WithHint(errs.New(errs.InvalidParams, "", "other users can write %s: its mode is %04o", f.Name(), st.Mode&0o7777),
			"make a directory for the store below it (mkdir -m 700 %s), or take the right away (chmod go-w %s)", filepath.Join(f.Name(), "mooncake"), f.Name())
	}
	return nil
}

// fit returns an error for a folder whose files do not lie in memory.
func fit(f *os.File) error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &fs); err != nil {
		return os.NewSyscallError("fstatfs", err)
	}
	switch fs.Type {
	case unix.TMPFS_MAGIC, unix.RAMFS_MAGIC:
		return nil
	case unix.HUGETLBFS_MAGIC:
		if fs.Bsize <= 2<<20 {
			return nil
		}
		return errs.WithHint(errs.New(errs.InvalidParams, "", "%s is a hugetlbfs with pages of %d MiB, and the ledger of each segment would take a whole one", f.Name(), fs.Bsize>>20),
			"name a directory of a hugetlbfs that is mounted with pagesize=2M")
	}
	dax, err := isDAX(f)
	if err == nil && !dax {
		err = errs.WithHint(errs.New(errs.InvalidParams, "", "%s lies on a disk (file system type %#x): the kernel would write all of the memory to it, time and again", f.Name(), fs.Type),
			"name a directory of a hugetlbfs (/dev/hugepages), of a tmpfs (/dev/shm), or of a file system that is mounted with -o dax")
	}
	return err
}

// isDAX reports whether files of a folder are mapped without a copy of them in memory.
func isDAX(folder *os.File) (bool, error) {
	f, err := temporary(folder)
	if err != nil {
		return false, err
	}
	defer f.Close() //nolint:errcheck // It holds nothing.
	var st unix.Statx_t
	if err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS, &st); err != nil {
		return false, os.NewSyscallError("statx", err)
	}
	return st.Attributes_mask&st.Attributes&unix.STATX_ATTR_DAX != 0, nil
}

// temporary makes a file without a name in a folder.
func temporary(folder *os.File) (*os.File, error) {
	fd, err := unix.Openat(int(folder.Fd()), ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, &os.PathError{Op: "make a file in", Path: folder.Name(), Err: err}
	}
	return os.NewFile(uintptr(fd), folder.Name()), nil
}

// lock opens and locks the folder of an owner. It makes it unless kept is set.
func (v *directory) lock(base int, owner string, kept bool) error {
	for range mostRaces {
		if err := unix.Mkdirat(base, owner, 0o700); !kept && err != nil && !errors.Is(err, unix.EEXIST) {
			return os.NewSyscallError("mkdirat", err)
		}
		fd, err := unix.Openat(base, owner, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		switch {
		case errors.Is(err, unix.ENOENT) && kept:
			return ErrNotKept
		case errors.Is(err, unix.ENOENT): // A process that ended has just removed it.
			continue
		case err != nil:
			return os.NewSyscallError("openat", err)
		}
		v.folder = os.NewFile(uintptr(fd), v.path)
		err = closed(v.folder)
		if err == nil {
			err = os.NewSyscallError("flock", unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB))
		}
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrTaken
		}
		if err == nil && same(base, owner, fd) {
			return nil
		}
		_ = v.folder.Close() // Nothing was written.
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: the folder was removed %d times while it was opened", ErrTaken, mostRaces)
}

// same reports whether name in a folder is what fd has open.
func same(folder int, name string, fd int) bool {
	var a, b unix.Stat_t
	return unix.Fstatat(folder, name, &a, unix.AT_SYMLINK_NOFOLLOW) == nil && unix.Fstat(fd, &b) == nil && a.Dev == b.Dev && a.Ino == b.Ino
}

func (v *directory) String() string { return "the files in " + v.path }

// do calls f with the folder.
func (v *directory) do(what, name string, f func(folder int) error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	err := checkName(name)
	if err == nil && v.folder == nil {
		err = os.ErrClosed
	}
	if err == nil {
		err = f(int(v.folder.Fd()))
	}
	if err != nil {
		return fmt.Errorf("vault: %s: %s %s: %w", v, what, name, err)
	}
	return nil
}

// Names implements Vault.
func (v *directory) Names(context.Context) (names []string, err error) {
	err = v.do("list", ".", func(folder int) error {
		fd, err := unix.Openat(folder, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return os.NewSyscallError("openat", err)
		}
		f := os.NewFile(uintptr(fd), v.path)
		defer f.Close() //nolint:errcheck // It is read only.
		names, err = f.Readdirnames(-1)
		return err
	})
	return names, err
}

// Make implements Vault. The file system says how large the pages are.
func (v *directory) Make(name string, _ uint64) (f *os.File, err error) {
	err = v.do("make", name, func(int) error {
		f, err = temporary(v.folder)
		return err
	})
	return f, err
}

// Take implements Vault.
func (v *directory) Take(_ context.Context, name string) (f *os.File, err error) {
	err = v.do("take", name, func(folder int) error {
		fd, err := unix.Openat(folder, name, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if errors.Is(err, unix.ENOENT) {
			return ErrNotKept
		}
		if err != nil {
			return os.NewSyscallError("openat", err)
		}
		f = os.NewFile(uintptr(fd), filepath.Join(v.path, name))
		if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
			_ = f.Close() // It is not used.
			f = nil
			return errors.Join(errors.New("it is not a file"), err)
		}
		return nil
	})
	return f, err
}

// Keep implements Vault. The file gets its name: a process that ends before leaves nothing behind.
func (v *directory) Keep(_ context.Context, name string, f *os.File) error {
	return v.do("keep", name, func(folder int) error {
		link := func() error {
			return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", f.Fd()), folder, name, unix.AT_SYMLINK_FOLLOW)
		}
		err := link()
		if errors.Is(err, unix.EEXIST) && same(folder, name, int(f.Fd())) {
			return nil
		}
		if errors.Is(err, unix.EEXIST) {
			if err = unix.Unlinkat(folder, name, 0); err == nil {
				err = link()
			}
		}
		return os.NewSyscallError("linkat", err)
	})
}

// Drop implements Vault.
func (v *directory) Drop(_ context.Context, name string) error {
	return v.do("remove", name, func(folder int) error {
		err := unix.Unlinkat(folder, name, 0)
		if errors.Is(err, unix.ENOENT) {
			return nil
		}
		return os.NewSyscallError("unlinkat", err)
	})
}

// Close implements Vault. An empty folder goes, before its lock does.
func (v *directory) Close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.folder == nil {
		return nil
	}
	if base, err := os.Open(filepath.Dir(v.path)); err == nil {
		if name := filepath.Base(v.path); same(int(base.Fd()), name, int(v.folder.Fd())) {
			_ = unix.Unlinkat(int(base.Fd()), name, unix.AT_REMOVEDIR) // It has files as a rule.
		}
		_ = base.Close() // It is read only.
	}
	err := v.folder.Close()
	v.folder = nil
	return err
}

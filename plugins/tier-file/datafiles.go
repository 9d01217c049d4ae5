package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/plugins/tier-file/internal/record"
)

const (
	// fileBytes is the size of a data file; the last one has the rest.
	fileBytes = 256 << 30
	// allocateBytes is the most that is allocated in one call.
	allocateBytes = 4 << 30
	// A file system that is full gets back a sixteenth of the last file, within these bounds.
	reserveLeast, reserveMost = 1 << 20, 1 << 30
)

// dataFile is a file of extents.
type dataFile struct {
	fd    int
	pages uint64
	// dirty says that something was written since the last sync.
	dirty atomic.Bool
}

// dataFiles are all files of a volume.
type dataFiles struct {
	all []*dataFile
	// direct says that they are read and written without the page cache.
	direct bool
	// notes are what the log should say of them.
	notes []string
}

func dataName(dir string, i int) string { return filepath.Join(dir, fmt.Sprintf("data-%d", i)) }

// address returns where a page of a file is. Addresses of two files are never adjacent.
func pageAddress(file int, page uint64) uint64 { return uint64(file)<<32 | page }

// place returns the file and the offset in bytes of an address.
func (d *dataFiles) place(addr uint64) (f *dataFile, off int64) {
	return d.all[addr>>32], int64(addr&(1<<32-1)) * record.Page
}

// has reports whether an extent lies in the files.
func (d *dataFiles) has(addr, units uint64) bool {
	i, page := addr>>32, addr&(1<<32-1)
	return i < uint64(len(d.all)) && page < d.all[i].pages && units <= d.all[i].pages-page
}

// capacity returns how many bytes the files have.
func (d *dataFiles) capacity() (n uint64) {
	for _, f := range d.all {
		n += f.pages * record.Page
	}
	return n
}

// existing returns how many bytes the data files of a folder take.
func existing(dir string) (n uint64) {
	for i := 0; ; i++ {
		var st unix.Stat_t
		if unix.Stat(dataName(dir, i), &st) != nil {
			return n
		}
		n += uint64(st.Blocks) * 512
	}
}

// free returns nine tenths of what the file system has left for the data files of a folder.
func free(dir string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	left := st.Bavail*uint64(st.Bsize) + existing(dir)
	return left / 10 * 9, nil
}

// openFiles makes the files of a folder have a capacity, or as much as there is space for.
func openFiles(ctx context.Context, dir string, capacity, each uint64, direct bool) (*dataFiles, error) {
	d := &dataFiles{direct: direct}
	for i := 0; ; i++ {
		size := min(each, capacity) &^ (record.Page - 1)
		if size < 2*record.Page {
			return d, removeFrom(dir, i)
		}
		capacity -= size
		f, err := d.open(ctx, dataName(dir, i), size)
		if err != nil {
			d.close()
			return nil, err
		}
		d.all = append(d.all, f)
		if got := f.pages * record.Page; got < size {
			d.notes = append(d.notes, fmt.Sprintf("the file system is full: %s has %d of %d bytes", dataName(dir, i), got, size))
			capacity = 0
		}
	}
}

// removeFrom removes the data files from a number on.
func removeFrom(dir string, i int) error {
	for ; ; i++ {
		if err := os.Remove(dataName(dir, i)); errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func (d *dataFiles) open(ctx context.Context, path string, size uint64) (*dataFile, error) {
	const flags = unix.O_RDWR | unix.O_CREAT | unix.O_CLOEXEC
	fd, err := -1, error(unix.EINVAL)
	if d.direct {
		fd, err = unix.Open(path, flags|unix.O_DIRECT, 0o600)
	}
	if errors.Is(err, unix.EINVAL) {
		if d.direct {
			d.direct = false
			d.notes = append(d.notes, "the file system has no O_DIRECT: the page cache is used")
		}
		fd, err = unix.Open(path, flags, 0o600)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	f := &dataFile{fd: fd}
	if err := d.resize(ctx, f, size); err != nil {
		_ = unix.Close(fd)
		return nil, &fs.PathError{Op: "allocate", Path: path, Err: err}
	}
	return f, nil
}

// resize gives a file its size. Where the file system is full, the file gets what is left.
func (d *dataFiles) resize(ctx context.Context, f *dataFile, size uint64) error {
	var st unix.Stat_t
	if err := unix.Fstat(f.fd, &st); err != nil {
		return err
	}
	if uint64(st.Size) > size {
		if err := unix.Ftruncate(f.fd, int64(size)); err != nil {
			return err
		}
	}
	// What is allocated already costs nothing, and a file with holes gets its blocks.
	at, step := uint64(0), uint64(allocateBytes)
	for at < size {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(step, size-at)
		switch err := unix.Fallocate(f.fd, 0, int64(at), int64(n)); {
		case err == nil:
			at += n
		case errors.Is(err, unix.EINTR):
		case (errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)) && step > record.Page:
			step = max(step/4, record.Page)
		case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
			at -= min(at, max(reserveLeast, min(at/16, reserveMost))) // for the log
			f.pages = at / record.Page
			return unix.Ftruncate(f.fd, int64(f.pages*record.Page))
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
			d.notes = append(d.notes, "the file system cannot allocate in advance: a write may find it full")
			f.pages = size / record.Page
			return unix.Ftruncate(f.fd, int64(size))
		default:
			return err
		}
	}
	f.pages = size / record.Page
	return nil
}

// probe reads a page without the page cache. Some file systems refuse only then.
func (d *dataFiles) probe(page []byte) error {
	if !d.direct || len(d.all) == 0 {
		return nil
	}
	_, err := unix.Pread(d.all[0].fd, page[:record.Page], 0)
	if !errors.Is(err, unix.EINVAL) {
		return nil // Another error is that of the first record, not of the volume.
	}
	d.direct = false
	d.notes = append(d.notes, "the file system refuses reads with O_DIRECT: the page cache is used")
	for _, f := range d.all {
		flags, err := unix.FcntlInt(uintptr(f.fd), unix.F_GETFL, 0)
		if err != nil {
			return err
		}
		if _, err := unix.FcntlInt(uintptr(f.fd), unix.F_SETFL, flags&^unix.O_DIRECT); err != nil {
			return err
		}
	}
	return nil
}

// sync makes what was written durable. After an error it is unknown what is.
func (d *dataFiles) sync() error {
	for _, f := range d.all {
		if !f.dirty.Swap(false) {
			continue
		}
		if err := unix.Fdatasync(f.fd); err != nil {
			return err
		}
	}
	return nil
}

func (d *dataFiles) close() {
	for _, f := range d.all {
		_ = unix.Close(f.fd)
	}
}

package trust

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// ReadLock reads the lock file at an absolute path. It fails with FileNotFound if there is none,
// with FileOpenFail if a user other than root and this one can change it, and with InvalidParams
// if it is malformed.
func ReadLock(path string) (Lock, error) {
	text, err := readLock(path, os.Geteuid())
	if err != nil {
		return Lock{}, err
	}
	return ParseLock(path, text)
}

func readLock(path string, uid int) ([]byte, error) {
	text, err := readOwned(path, uid, maxLockBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errs.WithHint(errs.New(errs.FileNotFound, "lock file "+path, "%w", err), "mooncake plugins lock makes it")
	case err != nil:
		return nil, errs.New(errs.FileOpenFail, "lock file "+path, "%w", err)
	}
	return text, nil
}

// readOwned reads a file that only root and this user can change, one byte more than limit at most.
func readOwned(path string, uid int, limit int64) ([]byte, error) {
	real, err := walk(path, uid)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(real, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = errors.New("it is not a regular file")
	default:
		err = checkOwner("file", real, info, uid)
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, limit+1))
}

// UpdateLock changes the lock file at an absolute path, or makes it. Concurrent updates, even by
// several programs, run one after the other, and each sees the result of the one before. Readers
// see the old file or the new one, even after a crash. change must not block. If change fails, or
// changes nothing, nothing is written.
func UpdateLock(ctx context.Context, path string, change func(*Lock) error) error {
	real, err := walk(path, os.Geteuid())
	if errors.Is(err, fs.ErrNotExist) {
		dir, derr := walk(filepath.Dir(path), os.Geteuid())
		real, err = filepath.Join(dir, filepath.Base(path)), derr
	}
	if err != nil {
		return errs.New(errs.FileOpenFail, "lock file "+path, "%w", err)
	}
	dir, err := os.Open(filepath.Dir(real))
	if err != nil {
		return errs.Wrap(errs.FileOpenFail, "lock file "+path, err)
	}
	defer dir.Close() // which also releases the lock of the folder
	if err := Reserve(ctx, dir); err != nil {
		return errs.New(errs.UnavailableInCurrentStatus, "lock file "+path, "another program is writing in its folder and does not finish: %w", err)
	}
	l, err := ReadLock(path)
	if err != nil && !errs.Is(err, errs.FileNotFound) {
		return err
	}
	before := l.Encode()
	if err := change(&l); err != nil {
		return err
	}
	after := l.Encode()
	if string(before) == string(after) {
		return nil
	}
	if err := Replace(dir, real, bytes.NewReader(after), 0o644); err != nil {
		return errs.New(errs.FileOpenFail, "lock file "+path, "cannot write it: %w", err)
	}
	return nil
}

package trust

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// reserveTime bounds the wait for another program that writes in the same folder.
const reserveTime = 30 * time.Second

// Reserve locks a folder against other calls of Reserve until dir is closed. It waits for the lock
// until ctx ends, at most 30 s.
func Reserve(ctx context.Context, dir *os.File) error {
	ctx, cancel := context.WithTimeout(ctx, reserveTime)
	defer cancel()
	for {
		err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

// Replace replaces a file of a folder atomically: either the old file or the new one is there, even
// after a crash.
func Replace(dir *os.File, path string, content io.Reader, mode fs.FileMode) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if _, err = io.Copy(f, content); err != nil {
		return err
	}
	if err = errors.Join(f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	if err := dir.Sync(); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("the file is written, but may be lost in a power failure: %w", err)
	}
	return nil
}

package trust

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Open opens a program at an absolute path, after checking that only root and this user can
// change it: the file, the folder it was found in, the folder that the resolved path names, and
// every folder on the way there. It checks the file that it opened. The caller closes it.
func Open(path string) (*os.File, error) { return open(path, os.Geteuid()) }

// Folder resolves a folder and checks that only root and this user can change it or redirect its
// path.
func Folder(dir string) (real string, err error) {
	uid := os.Geteuid()
	if real, err = walk(dir, uid); err != nil {
		return "", err
	}
	return real, checkDir(real, uid)
}

func open(path string, uid int) (*os.File, error) {
	if err := checkDir(filepath.Dir(path), uid); err != nil {
		return nil, err
	}
	real, err := walk(path, uid)
	if err != nil {
		return nil, err
	}
	if dir := filepath.Dir(real); dir != filepath.Dir(path) {
		if err := checkDir(dir, uid); err != nil {
			return nil, err
		}
	}
	// Non-blocking, because the path may be a pipe, which must not block the host.
	f, err := os.OpenFile(real, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open it: %w", err)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%s is not a regular file", real)
	case info.Mode()&0o111 == 0:
		err = fmt.Errorf("%s is not executable; chmod +x it", real)
	case info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0:
		err = fmt.Errorf("%s changes the user or group when it is run; remove its setuid and setgid bits", real)
	default:
		err = checkOwner("file", real, info, uid)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func checkDir(dir string, uid int) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("cannot read the attributes of its folder: %w", err)
	}
	return checkOwner("folder", dir, info, uid)
}

func checkOwner(what, path string, info fs.FileInfo, uid int) error {
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Errorf("the %s %s can be changed by others (mode %#o); run: chmod go-w %s", what, path, mode, path)
	}
	owner, err := ownerOf(path, info)
	if err != nil {
		return err
	}
	if owner != 0 && owner != uid {
		return fmt.Errorf("the %s %s belongs to user %d, who is neither root nor this user (%d)", what, path, owner, uid)
	}
	return nil
}

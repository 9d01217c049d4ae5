package plugins

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// trusted resolves a plugin binary and checks that nobody but root and this user can
// change it: the file, the folder it was found in, and the folder it really lies in. It
// opens the file, so that what was checked is what is read.
func trusted(path string, uid int) (real string, _ *os.File, err error) {
	if err := checkDir(filepath.Dir(path), uid); err != nil {
		return "", nil, err
	}
	if real, err = filepath.EvalSymlinks(path); err != nil {
		return "", nil, fmt.Errorf("cannot resolve it: %w", err)
	}
	if dir := filepath.Dir(real); dir != filepath.Dir(path) {
		if err := checkDir(dir, uid); err != nil {
			return "", nil, err
		}
	}
	// Non-blocking, because a pipe of this name must not stop the host.
	f, err := os.OpenFile(real, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return "", nil, fmt.Errorf("cannot open it: %w", err)
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
		return "", nil, err
	}
	return real, f, nil
}

func checkDir(dir string, uid int) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("cannot look at its folder: %w", err)
	}
	return checkOwner("folder", dir, info, uid)
}

func checkOwner(what, path string, info fs.FileInfo, uid int) error {
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Errorf("the %s %s can be changed by others (mode %#o); run: chmod go-w %s", what, path, mode, path)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("the owner of the %s %s is not known", what, path)
	}
	if st.Uid != 0 && int(st.Uid) != uid {
		return fmt.Errorf("the %s %s belongs to user %d, who is neither root nor this user (%d)", what, path, st.Uid, uid)
	}
	return nil
}

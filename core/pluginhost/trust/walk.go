package trust

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// maxLinks bounds the symbolic links of one path, as the kernel does.
const maxLinks = 40

// walk resolves an absolute path and checks that only root and this user can redirect it. Every
// folder on the way from the root, and every symbolic link, must belong to one of the two, and
// other users must not be able to write a folder. A folder with the sticky bit, such as /tmp, may
// be writable: other users can add names there, but cannot replace the files of this user.
func walk(path string, uid int) (real string, err error) {
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("%q is not an absolute path", path)
	}
	at, rest, links := "/", strings.Split(filepath.Clean(path), "/"), 0
	if err := checkAncestor(at, uid); err != nil {
		return "", err
	}
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		info, err := os.Lstat(next)
		if err != nil {
			return "", fmt.Errorf("cannot resolve it: %w", err)
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			if at = next; info.IsDir() {
				err = checkAncestor(at, uid)
			} else if len(rest) > 0 {
				err = fmt.Errorf("%s is not a folder", at)
			}
			if err != nil {
				return "", err
			}
			continue
		}
		if links++; links > maxLinks {
			return "", errors.New("cannot resolve it: there are too many symbolic links")
		}
		if owner, err := ownerOf(next, info); err != nil || owner != 0 && owner != uid && !unknownHere(owner) {
			return "", fmt.Errorf("the symbolic link %s belongs to user %d, who is neither root nor this user (%d)", next, owner, uid)
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", fmt.Errorf("cannot resolve it: %w", err)
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return at, nil
}

// checkAncestor checks a folder on the way to a file.
func checkAncestor(dir string, uid int) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("cannot read the attributes of the folder %s: %w", dir, err)
	}
	owner, err := ownerOf(dir, info)
	switch mode := info.Mode(); {
	case err != nil:
		return err
	case owner != 0 && owner != uid && !unknownHere(owner):
		return fmt.Errorf("the folder %s belongs to user %d, who is neither root nor this user (%d)", dir, owner, uid)
	case mode.Perm()&0o022 != 0 && mode&fs.ModeSticky == 0:
		return fmt.Errorf("the folder %s can be changed by others (mode %#o); run: chmod go-w %s", dir, mode.Perm(), dir)
	}
	return nil
}

func ownerOf(path string, info fs.FileInfo) (int, error) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, fmt.Errorf("the owner of %s is not known", path)
	}
	return int(st.Uid), nil
}

// unknownHere reports whether a user stands for all users that this user namespace does not
// know. In a rootless container that user owns the folders of the outer system. The files and
// folders of plugins themselves must belong to a known user.
func unknownHere(uid int) bool { return overflow() == uid }

var overflow = sync.OnceValue(func() int {
	text, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return -1
	}
	return overflowIn(string(text), func() string {
		text, _ := os.ReadFile("/proc/sys/kernel/overflowuid")
		return strings.TrimSpace(string(text))
	})
})

// overflowIn returns the number of that user, -1 if every user is known.
func overflowIn(uidMap string, number func() string) int {
	if f := strings.Fields(uidMap); len(f) == 3 && f[0] == "0" && f[2] == "4294967295" {
		return -1
	}
	uid, err := strconv.Atoi(number())
	if err != nil {
		return -1
	}
	return uid
}

package introspect

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// maxPath is the longest path of a unix socket, in bytes.
const maxPath = 107

// room is what a folder must leave for the name of a socket.
const room = len("/.metadata-4194304-99.sock.0123456789")

// Places says where sockets are: the folders of this user, best first, and for root those of all
// users. Nothing is created.
type Places struct {
	uid      int
	runtime  string // $XDG_RUNTIME_DIR, empty for none
	run      string // /run
	temp     string // the folder for temporary files
	fallback []string
}

// StandardPlaces are $XDG_RUNTIME_DIR/mooncake/admin, /run/mooncake/admin, and
// mooncake-UID in the folder for temporary files, in /tmp, and in /dev/shm, which
// containers can write whose file system is read-only otherwise.
func StandardPlaces(getenv func(string) string) Places {
	p := Places{uid: os.Geteuid(), run: "/run", temp: getenv("TMPDIR"), fallback: []string{"/tmp", "/dev/shm"}}
	if dir := getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		p.runtime = dir
	}
	if !filepath.IsAbs(p.temp) {
		p.temp = "/tmp"
	}
	return p
}

// own lists the folders in which this user's processes make sockets, best first.
func (p Places) own() []string {
	var dirs []string
	if p.runtime != "" {
		dirs = append(dirs, filepath.Join(p.runtime, "mooncake", "admin"))
	}
	dirs = append(dirs, filepath.Join(p.run, "mooncake", "admin"), p.temporary(p.temp))
	for _, dir := range p.fallback {
		if dir != p.temp {
			dirs = append(dirs, p.temporary(dir))
		}
	}
	return dirs
}

func (p Places) temporary(dir string) string {
	return filepath.Join(dir, "mooncake-"+strconv.Itoa(p.uid))
}

// searched lists the folders in which Find looks: for root also those of other users. In a folder
// where every user may create entries, an entry counts only if the user whose number it carries
// owns it. Otherwise other users could make root, or this user, look at as many places as they
// like.
func (p Places) searched() []string {
	dirs := slices.DeleteFunc(p.own(), func(dir string) bool {
		return filepath.Base(dir) == filepath.Base(p.temporary("")) && !belongs(dir, p.uid)
	})
	if p.uid != 0 {
		return dirs
	}
	found, _ := filepath.Glob(filepath.Join(p.run, "user", "[0-9]*", "mooncake", "admin")) // The pattern is well-formed, there is no other error.
	dirs = append(dirs, found...)
	for _, dir := range append([]string{p.temp}, p.fallback...) {
		found, _ := filepath.Glob(filepath.Join(dir, "mooncake-[0-9]*"))
		for _, dir := range found {
			uid, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), "mooncake-"))
			if err == nil && dir == (Places{uid: uid}).temporary(filepath.Dir(dir)) && belongs(dir, uid) {
				dirs = append(dirs, dir)
			}
		}
	}
	return dirs
}

// belongs reports whether dir is a folder, and no link to one, of a user.
func belongs(dir string, uid int) bool {
	info, err := os.Lstat(dir)
	return err == nil && info.IsDir() && ownerOf(info) == uid
}

// ownerOf returns the number of a file's user, -1 where it is not known.
func ownerOf(info fs.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}

// ensure returns a folder that is there and that only this user can enter: the first of
// own that can be had.
func (p Places) ensure() (string, error) {
	var failed error
	for _, dir := range p.own() {
		err := p.provide(dir)
		if err == nil {
			return dir, nil
		}
		failed = errors.Join(failed, err)
	}
	return "", errs.WithHint(errs.Wrap(errs.FileOpenFail, "admin socket: no folder for it", failed), "give a path with --admin_socket, or --admin_socket off")
}

// provide makes dir where it is missing, and the folder "mooncake" above "admin". What is
// above that has to be there: nothing is made at places that a machine does not have.
func (p Places) provide(dir string) error {
	if len(dir)+room > maxPath {
		return fmt.Errorf("%s: the path is too long for a socket in it", dir)
	}
	if parent := filepath.Dir(dir); filepath.Base(dir) == "admin" {
		if err := os.Mkdir(parent, 0o755); err != nil && !errors.Is(err, fs.ErrExist) { //nolint:gosec // others may have sockets there
			return err
		}
		if err := p.judge(parent, 0o022); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return p.judge(dir, 0o077)
}

// judge refuses a folder that is not this user's or root's, or gives others one of the rights in
// forbidden. It does not follow a link: another user may have put it there.
func (p Places) judge(dir string, forbidden fs.FileMode) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a folder", dir)
	}
	if owner := ownerOf(info); owner != p.uid && (owner != 0 || forbidden == 0o077) {
		return fmt.Errorf("%s belongs to another user", dir)
	}
	if mode := info.Mode().Perm(); mode&forbidden != 0 {
		return fmt.Errorf("%s can be used by others (mode %#o); run: chmod %o %s", dir, mode, mode&^forbidden, dir)
	}
	return nil
}

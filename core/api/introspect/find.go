package introspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// maxSockets bounds what is looked at in one folder.
const maxSockets = 1024

// Socket is one that was found; its name says whose it is.
type Socket struct {
	Path string
	Role string
	PID  int
}

// Found is what Find saw.
type Found struct {
	Sockets []Socket
	// Closed are folders that may hold sockets and that this user must not enter.
	Closed []string
}

// Find lists the sockets of running processes, by role and number, without asking them.
// Those that killed processes left behind are removed.
func Find(places Places) Found {
	var out Found
	seen := map[string]bool{}
	for _, dir := range places.searched() {
		real, err := filepath.EvalSymlinks(dir)
		if err != nil || seen[real] {
			if errors.Is(err, fs.ErrPermission) {
				out.Closed = append(out.Closed, dir)
			}
			continue
		}
		seen[real] = true
		f, err := openFolder(dir)
		if err != nil {
			if errors.Is(err, fs.ErrPermission) {
				out.Closed = append(out.Closed, dir)
			}
			continue
		}
		sweep(f)
		names := sockets(f)
		f.Close()
		for _, name := range names {
			if role, pid, ok := parseName(name); ok {
				out.Sockets = append(out.Sockets, Socket{Path: filepath.Join(dir, name), Role: role, PID: pid})
			}
		}
	}
	slices.SortFunc(out.Sockets, func(a, b Socket) int {
		if a.Role != b.Role {
			return strings.Compare(a.Role, b.Role)
		}
		return a.PID - b.PID
	})
	return out
}

// openFolder opens a folder to look into, and nothing else: a pipe of that name, which
// another user can have put there, would be waited for.
func openFolder(dir string) (*os.File, error) {
	return os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
}

// sockets lists the names of the sockets in a folder.
func sockets(folder *os.File) []string {
	_, _ = folder.Seek(0, io.SeekStart) // It may have been listed before.
	entries, _ := folder.ReadDir(maxSockets)
	var out []string
	for _, e := range entries {
		if e.Type() == fs.ModeSocket {
			out = append(out, e.Name())
		}
	}
	return out
}

// young is how old a socket under a hidden name must be before it counts as left behind:
// a process is between making it and naming it.
const young = time.Minute

// sweep removes the sockets of a folder on which no process listens. It works on the open folder,
// whatever is at its path by now: root looks into folders of other users, and such a user could
// put another folder there between the look and the removal. For the same reason sweep skips
// folders that more than one user may change.
func sweep(folder *os.File) {
	info, err := folder.Stat()
	if err != nil || info.Mode().Perm()&0o022 != 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), connectTime)
	defer cancel()
	for _, name := range sockets(folder) {
		path := fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), name)
		socket, err := os.Lstat(path)
		if err != nil || ownerOf(socket) != ownerOf(info) {
			continue
		}
		if hiddenRE.MatchString(name) {
			if time.Since(socket.ModTime()) < young {
				continue
			}
		} else if _, _, ours := parseName(name); !ours {
			continue
		}
		if dead(ctx, path) {
			_ = unix.Unlinkat(int(folder.Fd()), name, 0) // Gone by now, or a folder that only root may write.
		}
	}
}

package introspect

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
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
		Sweep(dir)
		names, err := sockets(dir)
		if errors.Is(err, fs.ErrPermission) {
			out.Closed = append(out.Closed, dir)
		}
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

// sockets lists the names of the sockets in a folder.
func sockets(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(maxSockets)
	var out []string
	for _, e := range entries {
		if e.Type() == fs.ModeSocket {
			out = append(out, e.Name())
		}
	}
	if len(entries) > 0 {
		err = nil
	}
	return out, err
}

// young is how old a socket under a hidden name must be before it counts as left behind:
// a process is between making it and naming it.
const young = time.Minute

// Sweep removes the sockets of a folder that nobody listens on.
func Sweep(dir string) {
	names, err := sockets(dir)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), connectTime)
	defer cancel()
	for _, name := range names {
		path := filepath.Join(dir, name)
		if strings.HasPrefix(name, ".") {
			if info, err := os.Lstat(path); err != nil || time.Since(info.ModTime()) < young {
				continue
			}
		} else if _, _, ours := parseName(name); !ours {
			continue
		}
		if dead(ctx, path) {
			_ = os.Remove(path) // Somebody else's, or gone by now.
		}
	}
}

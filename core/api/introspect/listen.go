package introspect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Listener is a socket that only this user can open. Close removes it.
type Listener struct {
	net.Listener
	path string
	file os.FileInfo // to remove this socket and no other
}

// Path is where it listens.
func (l *Listener) Path() string { return l.path }

// Listen makes the socket of this process in the first of the places that can be had, and
// removes what killed processes left there.
func Listen(ctx context.Context, places Places, role string) (*Listener, error) {
	dir, err := places.ensure()
	if err != nil {
		return nil, err
	}
	if folder, err := openFolder(dir); err == nil {
		sweep(folder)
		folder.Close()
	}
	for twin := range maxTwins + 1 {
		l, err := listenAt(ctx, filepath.Join(dir, socketName(role, os.Getpid(), twin)))
		if !errors.Is(err, fs.ErrExist) {
			return l, err
		}
	}
	return nil, errs.New(errs.FileOpenFail, "admin socket", "%s holds %d sockets of %s with this process's number", dir, maxTwins+1, role)
}

// ListenAt makes the socket at a path, in place of one on which no process listens. It fails
// where a process listens, and where something else is at the path.
func ListenAt(ctx context.Context, path string) (*Listener, error) {
	if len(path) > maxPath {
		return nil, errs.New(errs.InvalidParams, "admin.socket", "%q has %d bytes, more than the %d that a socket's path may have", path, len(path), maxPath)
	}
	l, err := listenAt(ctx, path)
	if errors.Is(err, fs.ErrExist) {
		return nil, errs.WithHint(errs.Wrap(errs.FileOpenFail, "admin socket", err), "each process needs a path of its own; --admin_socket auto gives it one")
	}
	return l, err
}

// listenAt first listens under a name that no process looks for. When the socket appears at its
// path, it is served and only this user can open it. So a socket that does not answer is dead.
func listenAt(ctx context.Context, path string) (*Listener, error) {
	dir, name := filepath.Split(path)
	hidden := filepath.Join(dir, fmt.Sprintf(".%s.%08x", strings.TrimSuffix(name, ".sock"), rand.Uint32()))
	if len(hidden) > maxPath {
		hidden = filepath.Join(dir, fmt.Sprintf(".%x", rand.Uint32()))
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "unix", hidden)
	if err != nil {
		return nil, errs.Wrap(errs.FileOpenFail, "admin socket "+path, err)
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false) //nolint:forcetypeassert // that is what the network "unix" gives
	l := &Listener{Listener: ln, path: path}
	defer os.Remove(hidden) //nolint:errcheck // the socket also has its own name
	if err = os.Chmod(hidden, 0o600); err == nil {
		l.file, err = os.Lstat(hidden)
	}
	if err == nil {
		err = publish(ctx, hidden, path)
	}
	if err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return l, nil
}

// publish gives the socket its name, in place of a dead one. fs.ErrExist where the name is
// taken.
func publish(ctx context.Context, hidden, path string) error {
	unlock, err := lockFolder(ctx, path)
	if err != nil {
		return err
	}
	defer unlock()
	for range 3 {
		err := os.Link(hidden, path)
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		if !dead(ctx, path) {
			return fmt.Errorf("%s is in use: %w", path, fs.ErrExist)
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return fmt.Errorf("%s is in use: %w", path, fs.ErrExist)
}

// lockTime bounds the wait for the lock of a folder. No process holds that lock for longer than
// it takes to see whether a socket is dead.
const lockTime = 10 * time.Second

// lockFolder keeps others that start from taking a dead socket away after it was replaced.
func lockFolder(ctx context.Context, path string) (unlock func(), err error) {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	for {
		err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { dir.Close() }, nil // Which gives the lock back.
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			dir.Close()
			return nil, fmt.Errorf("lock the folder of %s: %w", path, err)
		}
		select {
		case <-ctx.Done():
			dir.Close()
			return nil, fmt.Errorf("another process holds the lock on the folder of %s: %w", path, ctx.Err())
		case <-time.After(time.Millisecond):
		}
	}
}

// Close removes the socket and then stops listening. While the socket is served, no other process
// puts one in its place.
func (l *Listener) Close() error {
	var err error
	if now, e := os.Lstat(l.path); e == nil && os.SameFile(now, l.file) {
		err = os.Remove(l.path)
	}
	return errors.Join(err, l.Listener.Close())
}

// connectTime bounds a connection: the other side's kernel answers, not its program,
// unless very many wait.
const connectTime = 2 * time.Second

// dead reports whether path is a socket on which no process listens.
func dead(ctx context.Context, path string) bool {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Type() != fs.ModeSocket {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", path)
	if err == nil {
		c.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

package uds

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

const (
	// maxSocket is the longest path of a socket; the kernel takes 107 bytes.
	maxSocket = 107
	// maxFolder leaves space for the name that a socket has while it is new.
	maxFolder = maxSocket - len("/.uds-0123456789abcdef.sock")

	socketPrefix, socketSuffix = "uds-", ".sock"
)

// machine identifies one boot of one machine.
type machine [16]byte

// thisMachine asks the kernel.
func thisMachine() (machine, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return machine{}, fmt.Errorf("find out which machine this is: %w", err)
	}
	sum := sha256.Sum256(text)
	return machine(sum[:16]), nil
}

// socketName returns the file name of a start's socket. No two starts share one.
func socketName(incarnation uint64) string {
	return fmt.Sprintf("%s%016x%s", socketPrefix, incarnation, socketSuffix)
}

// folder makes sure that there is a folder that only this user can enter.
func folder(dir string) (string, error) {
	if dir == "" {
		dir = filepath.Join(os.TempDir(), "mooncake-uds-"+strconv.Itoa(os.Geteuid()))
	}
	if len(dir) > maxFolder {
		return "", fmt.Errorf("the folder %s is too long a path for sockets, at most %d bytes are possible: set folder", dir, maxFolder)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	info, err := os.Lstat(dir) // Not a link: its owner could point it elsewhere.
	if err != nil {
		return "", err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int64(owner.Uid) != int64(os.Geteuid()) || info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("%s must be a folder of this user that no other user can enter (mode 0700)", dir)
	}
	return dir, nil
}

// listen makes the socket. The socket gets its name only once it accepts connections, so that the
// sweep of another start does not take it for a stale one.
func listen(dir string, incarnation uint64) (*net.UnixListener, string, error) {
	name := filepath.Join(dir, socketName(incarnation))
	unnamed := filepath.Join(dir, "."+socketName(incarnation))
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: unnamed, Net: "unix"})
	if err != nil {
		return nil, "", err
	}
	ln.SetUnlinkOnClose(false)
	if err := os.Rename(unnamed, name); err != nil {
		_ = ln.Close()
		_ = os.Remove(unnamed)
		return nil, "", err
	}
	return ln, name, nil
}

// sweep removes the sockets of killed processes: those that refuse connections.
func sweep(ctx context.Context, dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.Type() != os.ModeSocket || !strings.HasPrefix(e.Name(), socketPrefix) || !strings.HasSuffix(e.Name(), socketSuffix) {
			continue
		}
		name := filepath.Join(dir, e.Name())
		c, err := new(net.Dialer).DialContext(ctx, "unix", name)
		if err == nil {
			_ = c.Close()
		} else if errors.Is(err, syscall.ECONNREFUSED) {
			_ = os.Remove(name)
		}
	}
}

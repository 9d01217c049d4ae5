package frame

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxAddress is the longest name of a socket that the kernel takes, in bytes.
const maxAddress = 107

// SocketOfPort names the abstract socket of the client that serves status on a port, with
// "@" for the leading zero byte.
func SocketOfPort(port int) string {
	return "@@mooncake_client_" + strconv.Itoa(port) + ".sock"
}

// CheckSocket reports why a name cannot be that of a socket: it is neither an absolute path
// nor "@" with an abstract name, or too long.
func CheckSocket(name string) error {
	switch {
	case !strings.HasPrefix(name, "@") && !strings.HasPrefix(name, "/") || len(name) < 2:
		return fmt.Errorf("socket %q is neither an absolute path nor @ with an abstract name", name)
	case len(name) > maxAddress:
		return fmt.Errorf("socket %q has %d bytes; the most is %d", name, len(name), maxAddress)
	}
	return nil
}

// Dial connects to a socket. The context bounds it.
func Dial(ctx context.Context, name string) (*net.UnixConn, error) {
	if err := CheckSocket(name); err != nil {
		return nil, err
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", name)
	if err != nil {
		return nil, err
	}
	return c.(*net.UnixConn), nil
}

// Peer is the process at the other end of a socket, as the kernel tells.
type Peer struct {
	PID int32
	UID uint32
}

// PeerOf asks the kernel for the process at the other end: the one that connected or that listens.
func PeerOf(c *net.UnixConn) (Peer, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return Peer{}, err
	}
	var cred *unix.Ucred
	var got error
	err = raw.Control(func(fd uintptr) { cred, got = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err == nil {
		err = got
	}
	if err != nil {
		return Peer{}, fmt.Errorf("query the process at the other end of the socket: %w", err)
	}
	return Peer{PID: cred.Pid, UID: cred.Uid}, nil
}

// Own reports whether the peer is this user, or root, which could read this process's memory
// anyhow.
func (p Peer) Own() bool { return p.UID == 0 || int(p.UID) == os.Geteuid() }

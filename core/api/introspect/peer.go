package introspect

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// ownOnly is a listener that takes connections of this user and of root only, and closes
// those of others at once.
type ownOnly struct {
	net.Listener
	log *slog.Logger
}

// Accept waits for a connection of a user who may ask.
func (l ownOnly) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		uid, err := peerUser(c)
		if err == nil && (uid == 0 || uid == os.Geteuid()) {
			return c, nil
		}
		l.log.Warn("admin socket: a connection of another user is refused", "user", uid, "error", err)
		c.Close()
	}
}

// peerUser returns the number of the user at the other end of a unix socket: on the listening
// side the user that connected, on the connecting side the user that listens.
func peerUser(c net.Conn) (int, error) {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return -1, errors.New("not a unix socket")
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return -1, err
	}
	var cred *unix.Ucred
	var got error
	err = raw.Control(func(fd uintptr) { cred, got = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err = errors.Join(err, got); err != nil {
		return -1, fmt.Errorf("ask who is at the other end of the socket: %w", err)
	}
	return int(cred.Uid), nil
}

package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// listen binds a port for a face. what names the face and flag the setting of its port,
// for the error.
func listen(ctx context.Context, what, host string, port int, flag string) (net.Listener, error) {
	addr := net.JoinHostPort(plainHost(host), strconv.Itoa(port))
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", addr)
	if err == nil {
		return ln, nil
	}
	err = fmt.Errorf("%s: cannot listen on %s: %w", what, addr, err)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, errs.WithHint(err, "another process has the port, maybe another mooncake; 'ss -ltnp sport = :%d' shows which; choose another port with --%s", port, flag)
	case errors.Is(err, syscall.EACCES):
		return nil, errs.WithHint(err, "ports below 1024 need privileges; choose another port with --%s", flag)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, errs.WithHint(err, "this machine does not have the address %s; 'ip -brief addr' lists those it has", host)
	case errors.Is(err, syscall.EAFNOSUPPORT):
		return nil, errs.WithHint(err, "this machine has no IPv6; 0.0.0.0 stands for all of its IPv4 addresses")
	}
	return nil, err
}

// delayed is a TCP listener whose connections may collect small messages (no
// TCP_NODELAY).
type delayed struct{ net.Listener }

// Accept waits for the next connection.
func (d delayed) Accept() (net.Conn, error) {
	c, err := d.Listener.Accept()
	if tcp, ok := c.(*net.TCPConn); ok && err == nil {
		_ = tcp.SetNoDelay(false) // a connection that is gone fails on its own
	}
	return c, err
}

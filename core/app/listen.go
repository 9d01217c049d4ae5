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
	addr := net.JoinHostPort(host, strconv.Itoa(port))
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
		return nil, errs.WithHint(err, "this machine does not have the address %s", host)
	}
	return nil, err
}

package ports

import (
	"context"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// Held is a free port that stays reserved while no listener is there: connections are refused, other processes do not get it,
// and this one can listen there again and again.
type Held struct {
	Port int
	fd   int
}

// Hold reserves a port of an address of this machine, 0 for any free one. The caller releases it.
func Hold(ctx context.Context, host string, port int) (*Held, error) {
	ips, err := net.DefaultResolver.LookupIPAddr(ctx, Plain(host))
	if err != nil {
		return nil, fmt.Errorf("the address %s: %w", host, err)
	}
	family, at := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Port: port, Addr: [16]byte(ips[0].IP.To16())})
	if v4 := ips[0].IP.To4(); v4 != nil {
		family, at = unix.AF_INET, &unix.SockaddrInet4{Port: port, Addr: [4]byte(v4)}
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	h := &Held{fd: fd}
	if err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err == nil {
		err = unix.Bind(fd, at)
	}
	var got unix.Sockaddr
	if err == nil {
		got, err = unix.Getsockname(fd)
	}
	if err != nil {
		h.Release()
		return nil, fmt.Errorf("port %d of %s cannot be reserved: %w", port, host, err)
	}
	switch a := got.(type) {
	case *unix.SockaddrInet4:
		h.Port = a.Port
	case *unix.SockaddrInet6:
		h.Port = a.Port
	}
	return h, nil
}

// Release ends the reservation. Repeatable.
func (h *Held) Release() {
	if h.fd >= 0 {
		_ = unix.Close(h.fd)
		h.fd = -1
	}
}

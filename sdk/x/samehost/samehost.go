// Package samehost is about TCP connections between processes of one machine.
package samehost

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// control is a congestion control that neither paces nor measures, and that every system has and
// allows (tcp(7), tcp_allowed_congestion_control).
const control = "reno"

// Is reports whether both ends of a TCP connection have the same address.
func Is(conn net.Conn) bool {
	here, ok := conn.LocalAddr().(*net.TCPAddr)
	there, ok2 := conn.RemoteAddr().(*net.TCPAddr)
	return ok && ok2 && here.IP.Equal(there.IP)
}

// Tune turns pacing off for a connection within a machine, in the direction in which this end
// sends; others it leaves alone. There nothing is congested, and what paces, as bbr does, has
// answers wait for a timer: with a MiB there and a byte back a third of the speed is lost.
// Where the system does not let it, nothing changes.
func Tune(conn net.Conn) {
	sc, ok := conn.(syscall.Conn)
	if !ok || !Is(conn) {
		return
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, control)
	})
}

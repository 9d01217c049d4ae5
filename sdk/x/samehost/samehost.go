// Package samehost detects and tunes TCP connections between processes of one machine.
package samehost

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// control is a congestion control algorithm that neither paces nor measures. Every system has it
// and allows it (tcp(7), tcp_allowed_congestion_control).
const control = "reno"

// Is reports whether both ends of a TCP connection have the same address.
func Is(conn net.Conn) bool {
	here, ok := conn.LocalAddr().(*net.TCPAddr)
	there, ok2 := conn.RemoteAddr().(*net.TCPAddr)
	return ok && ok2 && here.IP.Equal(there.IP)
}

// Tune turns pacing off for a connection within a machine, in the direction in which this end
// sends. It skips other connections. Nothing is congested within a machine, and an algorithm that
// paces, such as bbr, makes answers wait for a timer: a MiB there and a byte back loses a third of
// its speed. If the system forbids the change, Tune does nothing.
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

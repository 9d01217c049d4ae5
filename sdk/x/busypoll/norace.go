//go:build !race

package busypoll

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

func receive(fd uintptr, p []byte) (int, error) {
	return result(unix.RawSyscall6(unix.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), unix.MSG_DONTWAIT, 0, 0))
}

func send(fd uintptr, p []byte) (int, error) {
	return result(unix.RawSyscall6(unix.SYS_SENDTO, fd, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0))
}

// sendVec sends up to maxBufs buffers with one system call.
func sendVec(fd uintptr, bufs [][]byte) (int, error) {
	var vec [maxBufs]unix.Iovec
	used, total := 0, 0
	for _, b := range bufs {
		if len(b) > 0 {
			vec[used].Base = &b[0]
			vec[used].SetLen(len(b))
			used++
			total += len(b)
		}
	}
	if used == 0 {
		return 0, nil
	}
	m := unix.Msghdr{Iov: &vec[0]}
	m.SetIovlen(used)
	if total > most {
		return result(unix.Syscall(unix.SYS_SENDMSG, fd, uintptr(unsafe.Pointer(&m)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL))
	}
	return result(unix.RawSyscall(unix.SYS_SENDMSG, fd, uintptr(unsafe.Pointer(&m)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL))
}

func result(n, _ uintptr, e unix.Errno) (int, error) {
	if e != 0 {
		return 0, e
	}
	return int(n), nil
}

// readable reports whether a read would return at once.
func readable(fd uintptr) bool {
	var b [1]byte
	_, _, e := unix.RawSyscall6(unix.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&b[0])), 1, unix.MSG_DONTWAIT|unix.MSG_PEEK, 0, 0)
	return e != unix.EAGAIN
}

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

func result(n, _ uintptr, e unix.Errno) (int, error) {
	if e != 0 {
		return 0, e
	}
	return int(n), nil
}

// readable reports whether a read would not wait.
func readable(fd uintptr) bool {
	var b [1]byte
	_, _, e := unix.RawSyscall6(unix.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&b[0])), 1, unix.MSG_DONTWAIT|unix.MSG_PEEK, 0, 0)
	return e != unix.EAGAIN
}

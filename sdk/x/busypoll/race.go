//go:build race

package busypoll

import (
	"runtime"
	"syscall"
	"unsafe"
)

// Package syscall tells the race detector that what happens before a message is sent happens before
// what follows its arrival. That matters when both ends are in one process.

func receive(fd uintptr, p []byte) (int, error) { return syscall.Read(int(fd), p) }

// send replaces syscall.Write, which tells the race detector that it has read the bytes only after
// the system call. By then the other end may have received them and written to their memory.
func send(fd uintptr, p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	runtime.RaceReadRange(unsafe.Pointer(&p[0]), len(p))
	_, _ = syscall.Write(int(fd), nil) // Sends nothing, but makes package syscall tell the race detector.
	n, _, errno := syscall.Syscall(syscall.SYS_WRITE, fd, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

func sendVec(fd uintptr, bufs [][]byte) (int, error) {
	total := 0
	for _, b := range bufs {
		if len(b) == 0 {
			continue
		}
		n, err := send(fd, b)
		if total += max(n, 0); err != nil && total == 0 {
			return 0, err
		}
		if n < len(b) {
			break // The next call returns the error.
		}
	}
	return total, nil
}

func readable(fd uintptr) bool {
	_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_DONTWAIT|syscall.MSG_PEEK)
	return err != syscall.EAGAIN
}

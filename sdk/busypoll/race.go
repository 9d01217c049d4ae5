//go:build race

package busypoll

import "syscall"

// Package syscall tells the race detector that what was written before a message was sent has
// happened before what follows its arrival, as where both ends are in one process.

func receive(fd uintptr, p []byte) (int, error) { return syscall.Read(int(fd), p) }
func send(fd uintptr, p []byte) (int, error)    { return syscall.Write(int(fd), p) }

func sendVec(fd uintptr, bufs [][]byte) (int, error) {
	total := 0
	for _, b := range bufs {
		if len(b) == 0 {
			continue
		}
		n, err := syscall.Write(int(fd), b)
		if total += max(n, 0); err != nil && total == 0 {
			return 0, err
		}
		if n < len(b) {
			break // What is wrong is found by the next call.
		}
	}
	return total, nil
}

func readable(fd uintptr) bool {
	_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_DONTWAIT|syscall.MSG_PEEK)
	return err != syscall.EAGAIN
}

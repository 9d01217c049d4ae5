//go:build race

package busypoll

import "syscall"

// Package syscall tells the race detector that what was written before a message was sent has
// happened before what follows its arrival, as where both ends are in one process.

func receive(fd uintptr, p []byte) (int, error) { return syscall.Read(int(fd), p) }
func send(fd uintptr, p []byte) (int, error)    { return syscall.Write(int(fd), p) }

func readable(fd uintptr) bool {
	_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_DONTWAIT|syscall.MSG_PEEK)
	return err != syscall.EAGAIN
}

package rig

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// Freeze stops a process until thaw, which may be called again. It returns once every thread of the
// process has stopped. The host of the process must not find it silent meanwhile.
func Freeze(pid int) (thaw func() error, err error) {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return nil, fmt.Errorf("stop process %d: %w", pid, err)
	}
	thaw = func() error { return syscall.Kill(pid, syscall.SIGCONT) }
	for end := time.Now().Add(limit); ; time.Sleep(time.Millisecond) {
		if stopped, err := halted(pid); err != nil || stopped {
			return thaw, err
		}
		if time.Now().After(end) {
			_ = thaw()
			return nil, fmt.Errorf("process %d does not stop within %s after SIGSTOP", pid, limit)
		}
	}
}

// halted reports whether every thread of a process has stopped.
func halted(pid int) (bool, error) {
	stats, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "stat"))
	if err != nil || len(stats) == 0 {
		return false, fmt.Errorf("process %d is gone: %w", pid, os.ErrProcessDone)
	}
	for _, path := range stats {
		text, err := os.ReadFile(path) //nolint:gosec // of /proc
		if err != nil {
			continue // The thread has ended.
		}
		// The name before the state is in parentheses and may contain any byte.
		if rest := text[bytes.LastIndexByte(text, byte(0x29))+1:]; len(rest) < 2 || (rest[1] != 'T' && rest[1] != 't') {
			return false, nil
		}
	}
	return true, nil
}

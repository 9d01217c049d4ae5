package serve

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"

	goplugin "github.com/hashicorp/go-plugin"

	"github.com/mooncake-go/mooncake/sdk/wire"
	"github.com/mooncake-go/mooncake/sdk/x/shm"
)

// watchHost makes the process leave when the host is gone: when the lifeline closes, and
// on SIGTERM and SIGHUP, which the kernel sends for a host that died.
func watchHost(getenv func(string) string) error {
	line, err := openLifeline(getenv(wire.LifelineEnv))
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		<-signals
		leave(getenv)
	}()
	if line == nil {
		return nil
	}
	go func() {
		var b [64]byte
		for {
			if _, err := line.Read(b[:]); err != nil {
				leave(getenv)
			}
		}
	}()
	return nil
}

// openLifeline returns nil if the host uses go-plugin but passes no lifeline.
func openLifeline(text string) (*os.File, error) {
	if text == "" {
		return nil, nil
	}
	fd, err := strconv.Atoi(text)
	if err != nil || fd < 3 {
		return nil, fmt.Errorf("%s=%q is not the number of an open file descriptor", wire.LifelineEnv, text)
	}
	// Processes that the plugin starts must not hold the lifeline.
	syscall.CloseOnExec(fd)
	if err := syscall.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("%s=%q: %w", wire.LifelineEnv, text, err)
	}
	return os.NewFile(uintptr(fd), "lifeline"), nil
}

// openData returns the socket over which descriptors come, or nil if the host passed
// none.
func openData(text string) (*shm.Conn, error) {
	if text == "" {
		return nil, nil
	}
	fd, err := strconv.Atoi(text)
	if err != nil || fd < 3 {
		return nil, fmt.Errorf("%s=%q is not the number of an open file descriptor", wire.DataEnv, text)
	}
	conn, err := shm.NewConn(fd, "the host's socket for descriptors")
	if err != nil {
		return nil, fmt.Errorf("%s=%q: %w", wire.DataEnv, text, err)
	}
	return conn, nil
}

// leave ends the process at once, together with all processes that it started. It removes the
// process's sockets, because no other process does.
func leave(getenv func(string) string) {
	removeSockets(getenv(goplugin.EnvUnixSocketDir))
	if pid := os.Getpid(); syscall.Getpgrp() == pid {
		// The host gave this process a group of its own; the signal ends this process too.
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
	os.Exit(ExitHostGone)
}

// removeSockets removes the sockets of a folder, and the folder if it is empty then.
func removeSockets(dir string) {
	if dir == "" {
		return
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.Type() == os.ModeSocket {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
	_ = os.Remove(dir)
}

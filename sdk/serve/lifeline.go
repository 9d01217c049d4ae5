package serve

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

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
	if filepath.IsAbs(text) {
		if fd, err = fetchData(text); err != nil {
			return nil, fmt.Errorf("%s=%q: %w", wire.DataEnv, text, err)
		}
	}
	if err != nil || fd < 3 {
		return nil, fmt.Errorf("%s=%q is neither the number of an open file descriptor nor the path of a socket that gives one", wire.DataEnv, text)
	}
	conn, err := shm.NewConn(fd, "the host's socket for descriptors")
	if err != nil {
		return nil, fmt.Errorf("%s=%q: %w", wire.DataEnv, text, err)
	}
	return conn, nil
}

// fetchTime bounds fetchData.
const fetchTime = 10 * time.Second

// fetchData gets the descriptor of the socket from a host that did not start this process, and so could not
// pass it on.
func fetchData(path string) (int, error) {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Net: "unix", Name: path})
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(fetchTime)); err != nil {
		return 0, err
	}
	_, fds, err := shm.ReadMsg(conn, make([]byte, 1), 1)
	switch {
	case err != nil:
		return 0, err
	case len(fds) == 0:
		return 0, errors.New("the host sent no descriptor")
	}
	return fds[0], nil
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

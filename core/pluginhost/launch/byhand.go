package launch

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/sdk/wire"
)

// ByHand is what an operator needs to start a plugin's program by hand, for example under a
// debugger: the program runs with the variables of Env, and its standard output goes to Stdout.
type ByHand struct {
	// Program is the absolute path of the plugin's file.
	Program string
	// Env is a file for the shell that exports the variables. It holds until the process has ended.
	Env string
	// Stdout is a named pipe.
	Stdout string
}

const (
	// maxChatter bounds the lines that may come before the handshake line, such as those of a debugger.
	maxChatter = 1000
	// handLine bounds the handshake line, which holds a certificate.
	handLine = 64 << 10
	// connectTime bounds the look at the plugin's socket.
	connectTime = 10 * time.Second
)

// hand is the host's part of a process that an operator starts. The host does not end such a process.
type hand struct {
	announce func(ByHand)
	ctx      context.Context // of the start
	dir      string          // of the socket, only for this user
	line     string          // the handshake
	gone     chan struct{}   // closed when the process ended or the host lets it go
	letGo    sync.Once
	data     *net.UnixListener // hands out the socket for descriptors, nil for none

	mu   sync.Mutex
	left bool // the host let it go
	num  int
}

func (h *hand) pid() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.num
}

// release lets the process go. It may be called at any time, and more than once.
func (h *hand) release() {
	h.letGo.Do(func() {
		h.mu.Lock()
		h.left = true
		h.mu.Unlock()
		close(h.gone)
	})
}

func (h *hand) ending() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.left {
		return "was let go by the host, which had not started it"
	}
	return "ended; it was started by hand, so its exit status is not known here"
}

// handshake reads up to the handshake line and returns the address in it. Other lines are log lines.
func (h *hand) handshake(br *bufio.Reader, log *output) (string, error) {
	for range maxChatter {
		line, err := br.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return "", err
		}
		text := strings.TrimSpace(string(line))
		parts := strings.Split(text, "|")
		if len(parts) >= 5 && parts[2] == "unix" && filepath.IsAbs(parts[3]) {
			h.line = text
			return parts[3], nil
		}
		log.line(line[:min(len(line), maxLine)])
	}
	return "", fmt.Errorf("none of the first %d lines of its standard output is the handshake of a plugin", maxChatter)
}

// identify finds the process behind the socket of the plugin.
func (h *hand) identify(ctx context.Context, address string) (pidfd int, err error) {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", address)
	if err != nil {
		return -1, fmt.Errorf("connect to the program that was started by hand: %w", err)
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return -1, err
	}
	var cred *unix.Ucred
	if e := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); e != nil || err != nil {
		return -1, errors.Join(e, err)
	}
	if int(cred.Uid) != os.Geteuid() {
		return -1, fmt.Errorf("the program that was started by hand runs as user %d, and this host as user %d; start it as this user", cred.Uid, os.Geteuid())
	}
	h.mu.Lock()
	h.num = int(cred.Pid)
	h.mu.Unlock()
	pidfd, err = unix.PidfdOpen(int(cred.Pid), unix.PIDFD_NONBLOCK)
	if err != nil {
		return -1, fmt.Errorf("watch process %d: %w", cred.Pid, err)
	}
	return pidfd, nil
}

// wait returns when the process has ended, or when the host lets it go.
func (h *hand) wait(pidfd int) {
	// The poller of Go reports a pidfd as readable when the process has ended.
	f := os.NewFile(uintptr(pidfd), "pidfd")
	stop := make(chan struct{})
	over := make(chan struct{})
	go func() {
		defer close(over)
		select {
		case <-h.gone:
		case <-stop:
		}
		_ = f.SetReadDeadline(time.Unix(1, 0))
	}()
	if raw, err := f.SyscallConn(); err == nil {
		_ = raw.Read(func(fd uintptr) bool { return ended(int(fd)) })
	}
	close(stop)
	<-over
	_ = f.Close()
	h.close()
}

func ended(pidfd int) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 0)
	return n > 0 || err != nil && !errors.Is(err, unix.EINTR)
}

// offer gives the plugin its end of the socket for descriptors, if there is one, when it connects to a socket. It
// returns the variable that names that socket.
func (h *hand) offer(data *os.File, log *output) ([]string, error) {
	if data == nil {
		return nil, nil
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: filepath.Join(h.dir, "data")})
	if err != nil {
		return nil, err
	}
	h.data = l
	go func() {
		defer data.Close()
		conn, err := l.AcceptUnix()
		if err != nil {
			return
		}
		defer conn.Close()
		if _, _, err := conn.WriteMsgUnix([]byte{0}, syscall.UnixRights(int(data.Fd())), nil); err != nil {
			log.logger.Error("the plugin did not take the socket for descriptors", "error", err)
		}
	}()
	return []string{wire.DataEnv + "=" + l.Addr().String()}, nil
}

func (h *hand) close() {
	if h.data != nil {
		_ = h.data.Close()
	}
}

// exports makes a file for the shell that sets variables, which may contain newlines.
func exports(environ []string) []byte {
	var b strings.Builder
	b.WriteString("# for the program of a plugin that is started by hand\n")
	for _, kv := range slices.Compact(slices.Sorted(slices.Values(environ))) {
		name, value, _ := strings.Cut(kv, "=")
		fmt.Fprintf(&b, "export %s='%s'\n", name, strings.ReplaceAll(value, "'", `'\''`))
	}
	return []byte(b.String())
}

package embedded

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// process is a running etcd. The kernel ends it with this process.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // how it ended; set before done is closed
}

// start runs a program, whose log goes to log.
func start(program string, args []string, log *slog.Logger) (*process, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p := &process{done: make(chan struct{})}
	p.cmd = exec.Command(program, args...) //nolint:noctx // stop ends it.
	p.cmd.Env = slices.DeleteFunc(os.Environ(), foreign)
	p.cmd.Stderr = w
	// A group of its own: SIGINT from a terminal is for the master, which leaves in order.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		// Pdeathsig follows the thread that starts a process, so the thread has to stay.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		_ = w.Close() // It is the child's.
		started <- err
		if err != nil {
			return
		}
		last := relay(r, log)
		_ = r.Close()
		err = p.cmd.Wait()
		p.err = fmt.Errorf("%s ended (%s)%s", filepath.Base(program), p.cmd.ProcessState, last)
		if err != nil && p.cmd.ProcessState == nil {
			p.err = err
		}
		close(p.done)
	}()
	if err := <-started; err != nil {
		_ = r.Close()
		return nil, fmt.Errorf("start the etcd member: %w", err)
	}
	return p, nil
}

// foreign reports whether a variable is not for an etcd that a master starts: etcd takes settings from variables,
// which in Kubernetes may be about a service of that name, and it would tell systemd that the master is ready.
func foreign(kv string) bool {
	return slices.ContainsFunc([]string{"ETCD_", "NOTIFY_SOCKET=", "WATCHDOG_", "LISTEN_"}, func(p string) bool { return strings.HasPrefix(kv, p) })
}

// removed reports whether it ended because it is no member of its cluster any more.
func (p *process) removed() bool { return strings.Contains(p.err.Error(), "permanently removed") }

// stop ends it with SIGTERM, and with SIGKILL after a time.
func (p *process) stop(limit time.Duration) {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // It may have ended.
	select {
	case <-p.done:
	case <-time.After(limit):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// maxLine bounds a line of etcd's log, in bytes.
const maxLine = 64 << 10

// serverError is the warning of etcd that says why it ends.
const serverError = "server error"

// relay passes the log of etcd on, at its levels, and returns why etcd ends, with a colon before it: what etcd says
// of that, else its last error.
func relay(r io.Reader, log *slog.Logger) (last string) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 4096), maxLine)
	said := false
	for lines.Scan() {
		level, text, attrs := parse(lines.Bytes())
		if !said && (level >= slog.LevelError || text == serverError) {
			said = text == serverError
			last = ": " + text
			for _, a := range attrs {
				if a.Key == "error" {
					last += ": " + a.Value.String()
				}
			}
		}
		log.LogAttrs(context.Background(), level, "etcd: "+text, attrs...)
	}
	if lines.Err() != nil {
		_, _ = io.Copy(io.Discard, r) // The process must not block on its log.
	}
	return last
}

// parse reads a line of etcd's log. What is no JSON is a line of a library, or an error such as the trace of a panic.
func parse(line []byte) (slog.Level, string, []slog.Attr) {
	var fields map[string]any
	if json.Unmarshal(line, &fields) != nil {
		level := slog.LevelError
		if bytes.Contains(line, []byte(" WARNING: ")) {
			level = slog.LevelWarn
		} else if bytes.Contains(line, []byte(" INFO: ")) {
			level = slog.LevelInfo
		}
		return level, string(line), nil
	}
	text, _ := fields["msg"].(string)
	name, _ := fields["level"].(string)
	level, known := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn}[name]
	if !known {
		level = slog.LevelError // error, panic, fatal
	}
	var attrs []slog.Attr
	for k, v := range fields {
		if !slices.Contains([]string{"msg", "level", "ts", "caller", "stacktrace"}, k) {
			attrs = append(attrs, slog.Any(k, v))
		}
	}
	slices.SortFunc(attrs, func(a, b slog.Attr) int { return strings.Compare(a.Key, b.Key) })
	return level, text, attrs
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// lookPath is exec.LookPath, whose error says where it looked.
func lookPath(name string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
		return filepath.Abs(path)
	case errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("there is no %s beside this program or in PATH", name)
	}
	return "", err
}

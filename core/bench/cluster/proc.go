// Package cluster runs the processes of a pool on this machine: one program, several
// roles, each a process of its own on loopback. The demo and the end-to-end tests use it.
//
// A process started here cannot outlive the one that started it, also when that one is
// killed with SIGKILL: the kernel ends the child with its parent (Linux PDEATHSIG).
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Spec describes one process.
type Spec struct {
	// Name is used in messages and for the log: "master", "store-1".
	Name string
	// Program and Args are what to run; Args without the program's name.
	Program string
	Args    []string
	// Env is the whole environment.
	Env []string
	// Stdin is the standard input, nil for none.
	Stdin io.Reader
	// Stdout receives the standard output, nil discards it. An *os.File is handed over as it
	// is and stays open here.
	Stdout io.Writer
	// Log receives the standard error besides the kept tail, nil for none.
	Log io.Writer
}

// Proc is a running process. Safe for concurrent use.
type Proc struct {
	Name string
	cmd  *exec.Cmd
	tail *tail
	done chan struct{}
	err  error // set before done is closed
}

// Start runs a process in a process group of its own.
func Start(s Spec) (*Proc, error) {
	p := &Proc{Name: s.Name, tail: newTail(40), done: make(chan struct{})}
	p.cmd = exec.Command(s.Program, s.Args...) //nolint:noctx // ended by Stop and Kill, and with the parent
	p.cmd.Env = s.Env
	p.cmd.Stdin = s.Stdin
	p.cmd.Stdout = s.Stdout
	p.cmd.Stderr = p.tail
	if s.Log != nil {
		p.cmd.Stderr = io.MultiWriter(p.tail, s.Log)
	}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p.cmd.WaitDelay = 10 * time.Second

	started := make(chan error, 1)
	go func() {
		// PDEATHSIG follows the thread that started the child, so the thread has to stay.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := p.cmd.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Name, err)
	}
	return p, nil
}

// PID returns the process's number.
func (p *Proc) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Proc) Done() <-chan struct{} { return p.done }

// Wait waits for the end, or for the context, and returns the exit code; -1 for a process
// that a signal ended.
func (p *Proc) Wait(ctx context.Context) (int, error) {
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("%s is still running: %w", p.Name, ctx.Err())
	}
}

// Signal sends a signal to the process alone.
func (p *Proc) Signal(sig os.Signal) error { return p.cmd.Process.Signal(sig) }

// Kill ends the process group with SIGKILL and waits for the process to be gone.
func (p *Proc) Kill() {
	if err := syscall.Kill(-p.PID(), syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		p.cmd.Process.Kill() //nolint:errcheck // it is gone
	}
	<-p.done
}

// Stop sends SIGTERM and waits; when the context ends first the process is killed and the
// error says so.
func (p *Proc) Stop(ctx context.Context) error {
	if err := p.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", p.Name, err)
	}
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		p.Kill()
		return fmt.Errorf("%s did not stop in time and was killed", p.Name)
	}
}

// Tail returns the last lines of the standard error.
func (p *Proc) Tail() string { return p.tail.String() }

// tail keeps the last lines written to it.
type tail struct {
	mu    sync.Mutex
	lines []string
	part  strings.Builder
	max   int
}

// maxLine bounds one kept line, in bytes; the rest of a longer one is dropped.
const maxLine = 4096

func newTail(maxLines int) *tail { return &tail{max: maxLines} }

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range b {
		switch {
		case c == '\n':
			t.lines = append(t.lines, t.part.String())
			t.part.Reset()
			if len(t.lines) > t.max {
				t.lines = t.lines[1:]
			}
		case t.part.Len() < maxLine:
			t.part.WriteByte(c)
		}
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := t.lines
	if t.part.Len() > 0 {
		lines = append(lines[:len(lines):len(lines)], t.part.String())
	}
	return strings.Join(lines, "\n")
}

package launch

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/sdk/wire"
)

// drainTime bounds how long the output of a child is read after its end, in case a process that
// left its group holds the pipes.
const drainTime = 3 * time.Second

const killedByHost = "was killed by the host"

// child is one process. go-plugin drives it as its runner, but this package decides when it
// ends.
type child struct {
	path   string
	image  *Image
	limits *limiter
	cmd    *exec.Cmd // of the keeper, if there is one
	kept   *kept     // nil without a keeper
	box    confined
	out    *output

	stdout, stderr *os.File // our ends
	lifeline       *os.File // our end; closing it tells the child to exit
	data           *os.File // the child's end of the socket for descriptors, nil for none

	hand  *hand     // of a process that an operator starts, else nil
	first io.Reader // what such a process has written so far, and its further standard output

	reaped chan struct{} // closed once the child is collected
	done   chan struct{} // closed once its log is read as well

	mu        sync.Mutex
	killed    bool   // we killed it, or will not start it
	collected bool   // the process number may be reused
	byHost    bool   // it was killed before it was collected
	why       string // why it broke the contract, empty if it did not
}

func newChild(ctx context.Context, o Options, out *output) *child {
	cmd := exec.CommandContext(ctx, o.Path) // The host decides when it ends, see kill.
	cmd.Args[0] = o.Name
	return &child{path: o.Path, image: o.Image, limits: newLimiter(o), box: confined{policy: o.Sandbox, log: o.Logger}, out: out, reaped: make(chan struct{}), done: make(chan struct{}), cmd: cmd}
}

// Start implements runner.Runner. The thread that starts a process must outlive it, because the
// kernel takes the end of that thread for the end of the parent. So one locked thread starts
// the process and waits for it.
func (c *child) Start(context.Context) error {
	if c.hand != nil {
		return c.meet(c.hand.ctx)
	}
	theirs, err := c.wire()
	if err != nil {
		return fmt.Errorf("prepare %s: %w", c.path, err)
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.start()
		closeAll(theirs)
		started <- err
		if err == nil {
			c.collect()
		}
	}()
	if err := <-started; err != nil {
		closeAll([]*os.File{c.stdout, c.stderr, c.lifeline})
		close(c.done)
		return err
	}
	go c.drain() //nolint:contextcheck // The log outlives the start.
	return nil
}

// meet waits until the operator has started the program, and then watches it.
func (c *child) meet(ctx context.Context) error {
	h := c.hand
	pipe := filepath.Join(h.dir, "stdout")
	err := unix.Mkfifo(pipe, 0o600)
	var out *os.File
	if err == nil { // For writing too, so that the pipe does not end with the first process that closes it.
		out, err = os.OpenFile(pipe, os.O_RDWR|unix.O_NONBLOCK, 0)
	}
	if err != nil {
		closeAll([]*os.File{c.data})
		close(c.done)
		return fmt.Errorf("make the pipe %s: %w", pipe, err)
	}
	c.stdout = out
	fail := func(err error) error {
		_ = out.Close()
		h.close()
		close(c.done)
		return err
	}
	more, err := h.offer(c.data, c.out)
	if err != nil {
		return fail(err)
	}
	c.cmd.Env = append(c.cmd.Env, more...)
	env := filepath.Join(h.dir, "env")
	if err := os.WriteFile(env, exports(c.cmd.Env), 0o600); err != nil {
		return fail(err)
	}
	h.announce(ByHand{Program: c.path, Env: env, Stdout: pipe})
	stop := context.AfterFunc(ctx, h.release)
	defer stop()
	interrupted := make(chan struct{})
	met := make(chan struct{})
	go func() {
		defer close(interrupted)
		select {
		case <-h.gone:
			_ = out.SetReadDeadline(time.Unix(1, 0))
		case <-met:
		}
	}()
	br := bufio.NewReaderSize(out, handLine)
	address, err := h.handshake(br, c.out)
	close(met)
	<-interrupted
	if err != nil {
		if ctx.Err() != nil {
			err = errors.Join(ctx.Err(), err)
		}
		return fail(fmt.Errorf("wait for the program to be started by hand: %w", err))
	}
	pidfd, err := h.identify(ctx, address)
	if err != nil {
		return fail(err)
	}
	c.first = io.MultiReader(strings.NewReader(h.line+"\n"), br)
	go func() {
		h.wait(pidfd)
		close(c.reaped)
		_ = c.stdout.SetReadDeadline(time.Now())
		close(c.done)
	}()
	return nil
}

// wire makes the pipes and the lifeline and returns the child's ends.
func (c *child) wire() (theirs []*os.File, err error) {
	defer func() {
		if err != nil {
			closeAll(append(theirs, c.stdout, c.stderr, c.lifeline))
		}
	}()
	var stdout, stderr *os.File
	if c.stdout, stdout, err = os.Pipe(); err != nil {
		return theirs, err
	}
	theirs = append(theirs, stdout)
	if c.stderr, stderr, err = os.Pipe(); err != nil {
		return theirs, err
	}
	theirs = append(theirs, stderr)
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return theirs, err
	}
	c.lifeline = os.NewFile(uintptr(fds[0]), "lifeline")
	line := os.NewFile(uintptr(fds[1]), "lifeline of "+c.path)
	theirs = append(theirs, line)
	c.cmd.Stdout, c.cmd.Stderr = stdout, stderr
	c.cmd.ExtraFiles = []*os.File{line} // becomes descriptor 3
	c.cmd.Env = append(c.cmd.Env, wire.LifelineEnv+"=3")
	if c.data != nil {
		theirs = append(theirs, c.data)
		c.cmd.ExtraFiles = append(c.cmd.ExtraFiles, c.data)
		c.cmd.Env = append(c.cmd.Env, wire.DataEnv+"="+strconv.Itoa(2+len(c.cmd.ExtraFiles)))
	}
	// Last, and without a close on exec: an interpreter opens its script by this name.
	c.cmd.ExtraFiles = append(c.cmd.ExtraFiles, c.image.file)
	c.cmd.Path = "/proc/self/fd/" + strconv.Itoa(2+len(c.cmd.ExtraFiles))
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	box, err := c.box.prepare()
	if err != nil {
		return theirs, err
	}
	if box != nil && box.Ruleset != nil {
		theirs = append(theirs, box.Ruleset)
	}
	k, more, err := keep(c.cmd, c.limits.system, box)
	if err != nil {
		c.limits.log.Warn("the plugin runs without a keeper: processes that leave its process group outlive it, and its processes may outlive this host", "reason", err)
		return theirs, c.box.lost(err)
	}
	c.kept, c.limits.kept = k, k
	return append(theirs, more...), nil
}

func (c *child) start() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.killed {
		return errors.New("it was killed before it was started")
	}
	var err error
	c.cmd, err = c.limits.start(c.cmd)
	switch {
	case c.kept == nil:
		return err
	case err != nil:
		_ = c.kept.report.Close()
		return err
	}
	if err = c.kept.meet(); err != nil {
		c.limits.giveUp(c.cmd)
		c.cmd.Process = nil // It never ran.
	}
	return err
}

// collect waits for the end of the child, then kills the rest of its group. Until the dead
// leader is collected, the group's number cannot be reused.
func (c *child) collect() {
	if c.kept != nil {
		c.kept.wait(c.cmd.Process.Pid)
	}
	err := error(unix.EINTR)
	for errors.Is(err, unix.EINTR) {
		err = unix.Waitid(unix.P_PID, c.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
	}
	c.mu.Lock()
	if err == nil {
		_ = unix.Kill(-c.cmd.Process.Pid, unix.SIGKILL)
	}
	_ = c.cmd.Wait() // The exit status is in cmd.ProcessState.
	c.collected, c.byHost = true, c.killed
	if c.kept != nil {
		c.kept.free()
	}
	c.mu.Unlock()
	c.limits.end()
	_ = c.lifeline.Close()
	deadline := time.Now().Add(drainTime)
	_ = c.stdout.SetReadDeadline(deadline)
	_ = c.stderr.SetReadDeadline(deadline)
	close(c.reaped)
}

// drain reads the log to its end. Only then does the child count as gone, so that its last
// lines can be part of the error.
func (c *child) drain() {
	c.out.pump(c.stderr)
	<-c.reaped
	_ = c.stderr.Close()
	close(c.done)
}

// kill ends the whole process group. It may be called at any time, and more than once.
func (c *child) kill() {
	if c.hand != nil {
		c.hand.release()
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.killed = true
	switch {
	case c.cmd.Process == nil || c.collected:
	case c.kept != nil:
		c.kept.kill(c.cmd.Process.Pid)
	default:
		_ = unix.Kill(-c.cmd.Process.Pid, unix.SIGKILL)
		// It may have moved to another group of the session, such as the host's.
		_ = unix.Kill(c.cmd.Process.Pid, unix.SIGKILL)
		// The kernel reports its end to its tracer, not to its parent.
		if tracer := tracerOf(c.cmd.Process.Pid); tracer > 1 {
			_ = unix.Kill(tracer, unix.SIGKILL)
		}
	}
}

// tracerOf returns the process that traces pid. It returns 0 if there is none, or if a thread of
// this process traces pid, as it does while it sets limits.
func tracerOf(pid int) int {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, "TracerPid:"); ok {
			tracer, err := strconv.Atoi(strings.TrimSpace(text))
			if err != nil {
				return 0
			}
			if _, err := os.Stat("/proc/self/task/" + strconv.Itoa(tracer)); err == nil {
				return 0
			}
			return tracer
		}
	}
	return 0
}

// killFor kills the child because it broke the contract.
func (c *child) killFor(reason string) {
	c.mu.Lock()
	if c.why == "" {
		c.why = reason
	}
	c.mu.Unlock()
	c.kill()
}

// broke says how the child broke the contract, empty if it did not.
func (c *child) broke() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.why
}

// ending says how the child ended. It is valid once reaped is closed.
func (c *child) ending() string {
	if c.hand != nil {
		return c.hand.ending()
	}
	state := c.cmd.ProcessState
	if state == nil {
		return "did not start"
	}
	ws, ok := state.Sys().(syscall.WaitStatus)
	switch {
	case ok && c.byHost && ws.Signaled() && ws.Signal() == syscall.SIGKILL:
		if why := c.broke(); why != "" {
			return killedByHost + ": " + why
		}
		return killedByHost
	case ok && ws.Signaled():
		return "was killed by signal " + strconv.Itoa(int(ws.Signal())) + " (" + ws.Signal().String() + ")"
	}
	return "exited with status " + strconv.Itoa(state.ExitCode())
}

func (c *child) pid() int {
	switch {
	case c.hand != nil:
		return c.hand.pid()
	case c.cmd.Process == nil:
		return 0
	case c.kept != nil:
		return c.kept.pid
	}
	return c.cmd.Process.Pid
}

// Wait implements runner.Runner. go-plugin calls it when standard output has ended.
func (c *child) Wait(context.Context) error {
	<-c.done
	_ = c.stdout.Close()
	return nil
}

// Kill implements runner.Runner.
func (c *child) Kill(context.Context) error {
	c.kill()
	return nil
}

// Stdout implements runner.Runner. go-plugin stops reading at a line of 64 KiB, which would
// block the plugin's writes.
func (c *child) Stdout() io.ReadCloser {
	if c.first != nil {
		return &lines{ReadCloser: struct {
			io.Reader
			io.Closer
		}{c.first, c.stdout}}
	}
	return &lines{ReadCloser: c.stdout}
}

// Stderr implements runner.Runner. Package launch reads the log itself, because go-plugin's
// parser panics on a record whose message is not a string.
func (c *child) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

// Name implements runner.Runner.
func (c *child) Name() string { return c.path }

// ID implements runner.Runner.
func (c *child) ID() string { return strconv.Itoa(c.pid()) }

// Diagnose implements runner.Runner; package launch explains failures itself.
func (c *child) Diagnose(context.Context) string { return "" }

// PluginToHost implements runner.Runner: both see the same files.
func (c *child) PluginToHost(network, address string) (string, string, error) {
	return network, address, nil
}

// HostToPlugin implements runner.Runner: both see the same files.
func (c *child) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}

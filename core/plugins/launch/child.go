package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/sdk/wire"
)

// drainTime bounds how long the output of a child is read after its end, in case that
// something which left its process group holds the pipes.
const drainTime = 3 * time.Second

const killedByHost = "was killed by the host"

// child is one process. It is the runner that go-plugin drives; the package itself
// decides when it dies.
type child struct {
	path string
	cmd  *exec.Cmd
	out  *output

	stdout, stderr *os.File // our ends
	lifeline       *os.File // our end; closing it tells the child to leave

	reaped chan struct{} // closed once the child is collected
	done   chan struct{} // closed once its log is read as well

	mu        sync.Mutex
	killed    bool // we killed it, or will not start it
	collected bool // the process number is not ours any more
	byHost    bool // it was killed before it was collected
}

func newChild(ctx context.Context, o Options, out *output) *child {
	cmd := exec.CommandContext(ctx, o.Path) // Its end is the host's to decide, see kill.
	if o.Name != "" {
		cmd.Args[0] = o.Name
	}
	return &child{path: o.Path, out: out, reaped: make(chan struct{}), done: make(chan struct{}), cmd: cmd}
}

// Start implements runner.Runner. The thread that starts a process must outlive it,
// because the kernel takes the end of that thread for the end of the parent; so one
// locked thread starts it and waits for it.
func (c *child) Start(context.Context) error {
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
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	return theirs, nil
}

func (c *child) start() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.killed {
		return errors.New("given up before it was started")
	}
	return c.cmd.Start()
}

// collect waits for the end, then kills what is left of the group while the number of
// the dead leader still keeps the number of the group from being used again.
func (c *child) collect() {
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
	c.mu.Unlock()
	_ = c.lifeline.Close()
	deadline := time.Now().Add(drainTime)
	_ = c.stdout.SetReadDeadline(deadline)
	_ = c.stderr.SetReadDeadline(deadline)
	close(c.reaped)
}

// drain reads the log to its end; only then the child counts as gone, so that its last
// words are there for whoever explains it.
func (c *child) drain() {
	c.out.pump(c.stderr)
	<-c.reaped
	_ = c.stderr.Close()
	close(c.done)
}

// kill ends the whole process group. Repeatable, at any time.
func (c *child) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.killed = true
	if c.cmd.Process != nil && !c.collected {
		_ = unix.Kill(-c.cmd.Process.Pid, unix.SIGKILL)
	}
}

// ending says how the child ended; valid once done is closed.
func (c *child) ending() string {
	state := c.cmd.ProcessState
	if state == nil {
		return "did not start"
	}
	ws, ok := state.Sys().(syscall.WaitStatus)
	switch {
	case ok && c.byHost && ws.Signaled() && ws.Signal() == syscall.SIGKILL:
		return killedByHost
	case ok && ws.Signaled():
		return "was killed by signal " + strconv.Itoa(int(ws.Signal())) + " (" + ws.Signal().String() + ")"
	}
	return "exited with status " + strconv.Itoa(state.ExitCode())
}

func (c *child) pid() int {
	if c.cmd.Process == nil {
		return 0
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

// Stdout implements runner.Runner.
func (c *child) Stdout() io.ReadCloser { return c.stdout }

// Stderr implements runner.Runner. The log is read by package launch, because go-plugin's
// parser panics on a record whose message is no string.
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

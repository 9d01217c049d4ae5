package launch

import (
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// Limits bound the resources of a child and of its descendants; a zero field sets no limit. They
// hold from the child's first instruction on.
type Limits struct {
	// Memory in bytes bounds the control group as a whole, or the private writable memory of
	// each process if there is no group. Memory that a child shares with the host does not
	// count, so a transport gets the limit per process.
	Memory uint64
	// Files is the most descriptors that each process may have open.
	Files uint64
	// Processes is the most processes and threads.
	Processes uint64
	// CPU is how many CPUs' worth of time the child may use.
	CPU float64
	// Required refuses to run the child if one of the limits cannot be enforced.
	Required bool
}

func (l Limits) any() bool { return l.Memory > 0 || l.Files > 0 || l.Processes > 0 || l.CPU > 0 }

// limiter enforces limits on one child. The child is started under ptrace: the kernel stops it
// before its first instruction, and the limiter detaches once the limits are set. If tracing is
// forbidden, the limits are set while the child already runs.
//
// Only the thread that starts the child and waits for it uses the limiter. Others may read it
// afterwards.
type limiter struct {
	want   Limits
	shared bool // it works on memory that belongs to the host
	id     plugin.ID
	log    *slog.Logger
	system system
	kept   *kept // the limits then bound a keeper and the plugin below it; nil without a keeper

	group *cgroup
	held  []string // limits that are enforced, and how
	lost  []string // limits that are not, and why
}

func newLimiter(o Options) *limiter {
	return &limiter{want: o.Limits, shared: o.ID.Kind == plugin.KindTransport, id: o.ID, log: o.Logger, system: o.system}
}

// String says which limits hold and which do not.
func (l *limiter) String() string {
	parts := append([]string{}, l.held...)
	for _, s := range l.lost {
		parts = append(parts, "not enforced: "+s)
	}
	return strings.Join(parts, ", ")
}

// start starts the command with its limits. The returned command replaces the given one.
func (l *limiter) start(cmd *exec.Cmd) (*exec.Cmd, error) {
	if !l.want.any() {
		return cmd, cmd.Start()
	}
	l.group = newCgroup(l)
	again := copyOf(cmd)
	cmd.SysProcAttr.Ptrace = true
	err := l.system.trace(cmd)
	traced := err == nil
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOSYS) {
		cmd = again
		err = cmd.Start()
	}
	if err != nil {
		l.group.remove()
		return cmd, err
	}
	pid := cmd.Process.Pid
	if traced {
		err = atFirst(pid)
	} else {
		l.lost = append(l.lost, "limits of the first moment (processes may not be traced here)")
		if l.kept != nil {
			err = l.kept.meet() // The plugin runs already and does not inherit the keeper's limits.
			pid = l.kept.pid
		}
	}
	if err == nil {
		l.apply(pid)
		err = l.verdict()
	}
	if err == nil && traced {
		err = failed("let it go", unix.PtraceDetach(pid))
	}
	if err != nil {
		l.giveUp(cmd)
		return cmd, err
	}
	return cmd, nil
}

// giveUp ends the processes that were started.
func (l *limiter) giveUp(cmd *exec.Cmd) {
	if l.kept != nil && l.kept.pid > 0 {
		l.kept.kill(cmd.Process.Pid)
		l.kept.wait(cmd.Process.Pid)
		l.kept.free()
	}
	_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
	_ = cmd.Wait()
	l.group.remove()
}

// copyOf copies a command, since a command that failed to start cannot be started again.
func copyOf(cmd *exec.Cmd) *exec.Cmd {
	attr := *cmd.SysProcAttr
	return &exec.Cmd{
		Path: cmd.Path, Args: cmd.Args, Env: cmd.Env, Dir: cmd.Dir, Stdout: cmd.Stdout, Stderr: cmd.Stderr,
		ExtraFiles: cmd.ExtraFiles, SysProcAttr: &attr,
	}
}

// atFirst waits until the kernel has stopped the child before its first instruction. It fails if
// the child ends before that.
func atFirst(pid int) error {
	const trapped = 4 // CLD_TRAPPED
	var info unix.Siginfo
	err := error(unix.EINTR)
	for errors.Is(err, unix.EINTR) {
		err = unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
	}
	if err == nil && info.Code != trapped {
		return errors.New("it ended before it began")
	}
	return failed("wait for it", err)
}

// failed wraps an error with the step that failed.
func failed(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

const byGroup = " (control group)"

// apply sets everything that can be set.
func (l *limiter) apply(pid int) {
	inGroup := l.group.enter(pid)
	l.memory(pid, inGroup["memory"])
	if l.want.Files > 0 {
		l.rlimit(pid, "files", unix.RLIMIT_NOFILE, l.want.Files, "descriptors")
	}
	l.processes(pid, inGroup["pids"])
	if l.want.CPU > 0 {
		l.note("cpu", fmt.Sprintf("cpu %g", l.want.CPU)+byGroup, inGroup["cpu"])
	}
	l.rlimit(pid, "", unix.RLIMIT_CORE, 0, "") // a core dump would contain the pages of the pool
}

func (l *limiter) memory(pid int, why error) {
	if l.want.Memory == 0 {
		return
	}
	if why == nil && !l.shared {
		l.note("memory", "memory "+mib(l.want.Memory)+byGroup, nil)
		return
	}
	l.rlimit(pid, "memory", unix.RLIMIT_DATA, l.want.Memory, "own memory of each process")
}

// processes sets the limit of processes. Without a control group the kernel bounds all processes
// of a user together, and those of root not at all.
func (l *limiter) processes(pid int, why error) {
	if l.want.Processes == 0 {
		return
	}
	if why == nil || l.system.uid() == 0 {
		l.note("processes", fmt.Sprintf("processes %d", l.want.Processes)+byGroup, why)
		return
	}
	l.rlimit(pid, "processes", unix.RLIMIT_NPROC, l.want.Processes+tasks(l.system.uid()), "with what its user already has")
}

// rlimit sets a resource limit of the process, which its children inherit.
func (l *limiter) rlimit(pid int, name string, resource int, value uint64, what string) {
	var old unix.Rlimit
	err := unix.Prlimit(pid, resource, nil, &old)
	if err == nil {
		value = min(value, old.Max)
		err = unix.Prlimit(pid, resource, &unix.Rlimit{Cur: value, Max: value}, nil)
	}
	if name != "" {
		shown := fmt.Sprint(value)
		if name == "memory" {
			shown = mib(value)
		}
		l.note(name, fmt.Sprintf("%s %s (%s)", name, shown, what), err)
	}
}

func (l *limiter) note(name, held string, err error) {
	if err != nil {
		l.lost = append(l.lost, name+" ("+err.Error()+")")
		return
	}
	l.held = append(l.held, held)
}

// verdict returns an error if the child must not run because a limit is not enforced.
func (l *limiter) verdict() error {
	if len(l.lost) == 0 {
		return nil
	}
	if l.want.Required {
		return errs.WithHint(errs.New(errs.NotSupported, "", "its limits cannot be enforced here: %s", strings.Join(l.lost, ", ")),
			"give this program a control group of its own (systemd: Delegate=yes and DelegateSubgroup=host), or set limits.required to false")
	}
	l.log.Warn("not all limits of the plugin are enforced", "missing", strings.Join(l.lost, ", "))
	return nil
}

// end removes the control group and the processes that the child left in it.
func (l *limiter) end() { l.group.remove() }

func mib(bytes uint64) string {
	if bytes%(1<<30) == 0 {
		return fmt.Sprintf("%dGiB", bytes>>30)
	}
	return fmt.Sprintf("%.4gMiB", float64(bytes)/(1<<20))
}

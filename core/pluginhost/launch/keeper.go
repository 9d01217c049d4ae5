package launch

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/core/pluginhost/launch/internal/keeper"
	"github.com/mooncake-go/mooncake/core/pluginhost/launch/sandbox"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// keeperPatience is how long a keeper may take to kill the plugin's remaining processes once the
// plugin is gone. A keeper that takes longer was stopped by one of them, and is killed.
const keeperPatience = 5 * time.Second

// kept is the plugin of a child that has a keeper: the process that the host started is
// the keeper, and the plugin is the keeper's child.
type kept struct {
	report *os.File // our end of the pipe on which the keeper reports the plugin's number
	theirs *os.File // the keeper's end

	box *sandbox.Box // what the plugin's process does to itself first, nil for nothing

	pid    int // of the plugin; the keeper collects the plugin, so the number may be reused
	handle int // a descriptor of the plugin (pidfd_open), which is never reused
}

// errNoKeeper wraps the reason why a child gets no keeper.
var errNoKeeper = errors.New("no keeper")

// keep changes a command so that a keeper runs the program. The command's path and files must be
// complete. The returned files are the child's. box, nil for none, is put in force before the program runs.
func keep(cmd *exec.Cmd, s system, box *sandbox.Box) (k *kept, theirs []*os.File, err error) {
	k = &kept{handle: -1, box: box}
	defer func() {
		if err != nil {
			closeAll(append(theirs, k.report))
			err = errors.Join(errNoKeeper, err)
		}
	}()
	if s.noKeeper != nil {
		return k, nil, s.noKeeper
	}
	// Without a descriptor the plugin cannot be waited for and killed reliably.
	probe, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return k, nil, os.NewSyscallError("pidfd_open", err)
	}
	_ = unix.Close(probe)
	if k.report, k.theirs, err = os.Pipe(); err != nil {
		return k, nil, err
	}
	theirs = append(theirs, k.theirs)
	report := 3 + len(cmd.ExtraFiles)
	files := []*os.File{k.theirs, nil}
	var steps func(keeper.Place) []keeper.Step
	if box != nil {
		steps = box.Steps(report + len(files))
		if box.Ruleset != nil {
			files = append(files, box.Ruleset)
		}
	}
	program, err := keeperProgram(report, report+1, steps)
	if err != nil {
		return k, theirs, err
	}
	theirs, files[1] = append(theirs, program), program
	cmd.ExtraFiles = append(cmd.ExtraFiles, files...)
	cmd.Args = append([]string{cmd.Path}, cmd.Args...)
	cmd.Path = "/proc/self/fd/" + strconv.Itoa(report+1)
	return k, theirs, nil
}

// keeperProgram returns a sealed file that holds the keeper's program.
func keeperProgram(report, self int, steps func(keeper.Place) []keeper.Step) (*os.File, error) {
	text, err := keeper.Image(report, self, steps)
	if err != nil {
		return nil, err
	}
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate("mooncake-keeper", flags|mfdExec)
	if errors.Is(err, unix.EINVAL) {
		fd, err = unix.MemfdCreate("mooncake-keeper", flags)
	}
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), "memory of the keeper")
	_, err = f.Write(text)
	if err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL)
	}
	if err == nil {
		err = unix.Faccessat(unix.AT_FDCWD, selfFD(f), unix.X_OK, unix.AT_EACCESS)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// meet waits until the started keeper has started the plugin, or has failed to. After success it
// may be called again.
func (k *kept) meet() error {
	if k.pid > 0 {
		return nil
	}
	_ = k.theirs.Close() // Else the end of the report would not be seen.
	defer k.report.Close()
	said, err := io.ReadAll(io.LimitReader(k.report, 8))
	if err != nil || len(said) < 4 {
		return errors.Join(errors.New("its keeper ended at once"), err)
	}
	pid := 0
	for ; len(said) >= 4; said = said[4:] { // The two may write in either order.
		n := int(int32(binary.NativeEndian.Uint32(said))) //nolint:gosec // As it was written.
		if n <= 0 {
			return k.failure(-n)
		}
		pid = n
	}
	k.pid = pid
	if k.handle, err = unix.PidfdOpen(pid, 0); err != nil {
		k.handle = -1 // The plugin has ended and was collected.
	}
	return nil
}

// failure explains what a keeper reported in place of a number.
func (k *kept) failure(n int) error {
	step, why := n>>keeper.StepShift, syscall.Errno(n&(1<<keeper.StepShift-1)) //nolint:gosec // An error number.
	if step > 0 && k.box != nil {
		return errs.WithHint(errs.New(errs.NotSupported, "", "its sandbox cannot be put in force: %s: %w", k.box.StepName(step), why),
			"plugins.sandbox: off runs the plugin without it")
	}
	return &os.PathError{Op: "fork/exec", Path: "the program", Err: why}
}

// signal sends a signal to the plugin, and reports whether the plugin still exists.
func (k *kept) signal(s syscall.Signal) bool {
	return k.handle >= 0 && unix.PidfdSendSignal(k.handle, s, nil, 0) == nil
}

// kill kills the plugin, and makes the keeper kill the rest. It does not collect the keeper.
func (k *kept) kill(keeper int) {
	if k.signal(unix.SIGKILL) {
		// The kernel reports its end to its tracer, not to its keeper.
		if tracer := tracerOf(k.pid); tracer > 1 && tracer != keeper {
			_ = unix.Kill(tracer, unix.SIGKILL)
		}
	}
	_ = unix.Kill(keeper, unix.SIGQUIT)
	_ = unix.Kill(keeper, unix.SIGCONT) // A plugin may have stopped it.
}

// wait returns once the plugin and its keeper have ended. It kills a keeper that does not end.
func (k *kept) wait(keeper int) {
	handle, err := unix.PidfdOpen(keeper, 0)
	if err == nil {
		defer unix.Close(handle) //nolint:errcheck // Only looked at.
		if k.handle >= 0 {
			awaitEnd(-1, k.handle, handle)
		}
		if !awaitEnd(keeperPatience, handle) {
			_ = unix.Kill(keeper, unix.SIGKILL)
		}
	}
	// If the keeper was killed, the plugin may still run.
	if k.signal(unix.SIGKILL) {
		_ = unix.Kill(-k.pid, unix.SIGKILL)
		awaitEnd(keeperPatience, k.handle)
	}
}

// free closes the plugin's descriptor. signal does nothing from then on.
func (k *kept) free() {
	if k.handle >= 0 {
		_ = unix.Close(k.handle)
		k.handle = -1
	}
}

// awaitEnd waits until one of the processes has ended. A negative limit means no limit.
func awaitEnd(limit time.Duration, handles ...int) bool {
	ends := make([]unix.PollFd, len(handles))
	for i, h := range handles {
		ends[i] = unix.PollFd{Fd: int32(h), Events: unix.POLLIN} //nolint:gosec // A descriptor.
	}
	deadline := time.Now().Add(limit)
	for {
		left := -1
		if limit >= 0 {
			left = int(max(0, time.Until(deadline)).Milliseconds()) + 1
		}
		n, err := unix.Poll(ends, left)
		if !errors.Is(err, unix.EINTR) {
			return n > 0
		}
	}
}

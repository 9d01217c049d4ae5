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
)

// keeperPatience is how long a keeper may take to end what its plugin left behind, once the
// plugin is gone. One that takes longer was stopped by something that is left; it is killed.
const keeperPatience = 5 * time.Second

// kept is the plugin of a child that has a keeper: the process that the host started is
// the keeper, and the plugin is the keeper's child.
type kept struct {
	report *os.File // our end of the pipe on which the keeper says what it started
	theirs *os.File // the keeper's

	pid    int // of the plugin; the keeper collects it, so it may be another process's one day
	handle int // a descriptor of the plugin (pidfd_open), which stays its own
}

// errNoKeeper wraps why a child gets no keeper.
var errNoKeeper = errors.New("no keeper")

// keep changes a command so that a keeper runs what it would have run. The command's path
// and files are complete. The files returned are the child's.
func keep(cmd *exec.Cmd, s system) (k *kept, theirs []*os.File, err error) {
	k = &kept{handle: -1}
	defer func() {
		if err != nil {
			closeAll(append(theirs, k.report))
			err = errors.Join(errNoKeeper, err)
		}
	}()
	if s.noKeeper != nil {
		return k, nil, s.noKeeper
	}
	// Without a descriptor of the plugin it cannot be waited for and killed for certain.
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
	program, err := keeperProgram(report, report+1)
	if err != nil {
		return k, theirs, err
	}
	theirs = append(theirs, program)
	cmd.ExtraFiles = append(cmd.ExtraFiles, k.theirs, program)
	cmd.Args = append([]string{cmd.Path}, cmd.Args...)
	cmd.Path = "/proc/self/fd/" + strconv.Itoa(report+1)
	return k, theirs, nil
}

// keeperProgram returns a sealed file that holds the keeper's program.
func keeperProgram(report, self int) (*os.File, error) {
	text, err := keeper.Image(report, self)
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

// meet waits until the keeper, which was started, has started the plugin, or could not.
// Repeatable after success.
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
	for ; len(said) >= 4; said = said[4:] { // In whichever order the two write.
		n := int(int32(binary.NativeEndian.Uint32(said))) //nolint:gosec // As it was written.
		if n <= 0 {
			return &os.PathError{Op: "fork/exec", Path: "the program", Err: syscall.Errno(-n)} //nolint:gosec // An error number.
		}
		pid = n
	}
	k.pid = pid
	if k.handle, err = unix.PidfdOpen(pid, 0); err != nil {
		k.handle = -1 // It has ended, and was collected.
	}
	return nil
}

// signal sends a signal to the plugin, and reports whether it is still there.
func (k *kept) signal(s syscall.Signal) bool {
	return k.handle >= 0 && unix.PidfdSendSignal(k.handle, s, nil, 0) == nil
}

// kill ends the plugin, and has its keeper end all else. The keeper is not collected.
func (k *kept) kill(keeper int) {
	if k.signal(unix.SIGKILL) {
		// Its end is told to who traces it, not to its keeper.
		if tracer := tracerOf(k.pid); tracer > 1 && tracer != keeper {
			_ = unix.Kill(tracer, unix.SIGKILL)
		}
	}
	_ = unix.Kill(keeper, unix.SIGQUIT)
	_ = unix.Kill(keeper, unix.SIGCONT) // A plugin may have stopped it.
}

// wait returns once the plugin and its keeper have ended. A keeper that does not is killed.
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
	// Nobody has ended it where its keeper was killed.
	if k.signal(unix.SIGKILL) {
		_ = unix.Kill(-k.pid, unix.SIGKILL)
		awaitEnd(keeperPatience, k.handle)
	}
}

// free gives up the plugin's descriptor; nothing is sent any more.
func (k *kept) free() {
	if k.handle >= 0 {
		_ = unix.Close(k.handle)
		k.handle = -1
	}
}

// awaitEnd waits until one of some processes has ended; a negative limit is none.
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

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/core/pluginhost/internal/testplugin"
)

// attack tries what a hostile plugin tries, and writes what became of it as one line: the error of each attempt,
// empty for one that succeeded.
//
// It also runs without a sandbox, as root, on the machine of a developer. So no attempt may do harm when it succeeds:
// calls that would change the machine get arguments with which the kernel refuses them after it has permitted them.
func attack(target string) {
	var t testplugin.Target
	if err := json.Unmarshal([]byte(target), &t); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(9)
	}
	out := map[string]string{}
	for name, try := range attempts(t) {
		out[name] = ""
		if err := try(); err != nil {
			out[name] = err.Error()
		}
	}
	text, _ := json.Marshal(out)
	fmt.Fprintln(os.Stderr, testplugin.Attacked+string(text))
}

func attempts(t testplugin.Target) map[string]func() error {
	inside := filepath.Join(os.TempDir(), "inside")
	return map[string]func() error{
		"write outside":    func() error { return os.WriteFile(filepath.Join(t.Folder, "new"), nil, 0o600) },
		"read outside":     func() error { _, err := os.ReadFile(t.Secret); return err },
		"list outside":     func() error { _, err := os.ReadDir(t.Folder); return err },
		"truncate outside": func() error { return os.Truncate(t.Secret, 1) },
		"link outside":     func() error { return os.Symlink(t.Secret, filepath.Join(t.Folder, "link")) },
		"make a device":    func() error { return unix.Mknod(inside+".dev", unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))) },
		"write to proc":    func() error { return os.WriteFile("/proc/self/comm", []byte("hostile"), 0) },
		"environment of the host": func() error {
			_, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", t.Host))
			return err
		},
		"memory of the host": func() error { return readMemory(t.Host) },
		"trace the host":     func() error { return trace(t.Host) },
		"trace the keeper":   func() error { return trace(os.Getppid()) },
		"signal the host":    func() error { return syscall.Kill(t.Host, syscall.SIGWINCH) },
		"signal the keeper":  func() error { return syscall.Kill(os.Getppid(), syscall.SIGWINCH) },
		"dial tcp":           func() error { return dial("tcp", t.TCP) },
		"dial udp":           func() error { return dial("udp", t.TCP) },
		"dial abstract":      func() error { return dial("unix", t.Abstract) },
		"dial a path":        func() error { return dial("unix", t.Socket) },
		"mount":              func() error { return permitted(unix.Mount("none", inside+".none", "tmpfs", 0, "")) },
		"change root":        func() error { return permitted(unix.Chroot(inside + ".none")) },
		"user namespace":     func() error { return namespace() },
		"keys":               func() error { _, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, false); return err },
		"ring":               func() error { return call(unix.SYS_IO_URING_SETUP, 0, 0) },
		"kernel program":     func() error { return call(unix.SYS_BPF, 0, 0) },
		"module":             func() error { return call(unix.SYS_DELETE_MODULE, 0, 0) },
		"any capability":     capability,
		"new privileges":     privileges,

		"ok: own folder":   func() error { return os.WriteFile(inside, nil, 0o600) },
		"ok: system files": func() error { _, err := os.ReadFile("/etc/passwd"); return err },
		"ok: a program":    func() error { return exec.Command("/bin/true").Run() }, //nolint:noctx // It ends at once.
		"ok: a child":      child,
		"ok: a thread":     func() error { _, err := os.ReadFile("/proc/thread-self/status"); return err },
		"ok: what is left": func() error { _, err := os.ReadFile(t.Left); return err },
	}
}

// call makes a system call with wrong arguments.
func call(number, a, b uintptr) error {
	if _, _, errno := unix.Syscall(number, a, b, 0); errno != 0 {
		return permitted(errno)
	}
	return nil
}

// permitted returns an error if a call with wrong arguments was forbidden. Where it is not, the kernel refuses the
// arguments with another error.
func permitted(err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
		return err
	}
	return nil
}

func readMemory(pid int) error {
	var b [1]byte
	local := []unix.Iovec{{Base: &b[0], Len: 1}}
	_, err := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: uintptr(unsafe.Pointer(&b)), Len: 1}}, 0)
	if err == unix.EFAULT { //nolint:errorlint // As the system call returns it.
		return nil
	}
	return err
}

// trace attaches to a process and detaches again: a traced process stops at its next signal.
func trace(pid int) error {
	runtime.LockOSThread() // The kernel knows the thread as the tracer.
	defer runtime.UnlockOSThread()
	if err := unix.PtraceSeize(pid); err != nil {
		return err
	}
	if err := unix.PtraceInterrupt(pid); err != nil {
		return err
	}
	var ws unix.WaitStatus
	if _, err := unix.Wait4(pid, &ws, unix.WALL, nil); err != nil {
		return err
	}
	sig := ws.StopSignal() // of another stop than that of the interrupt; it must not be lost
	if ws>>16 == unix.PTRACE_EVENT_STOP {
		sig = 0
	}
	if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_DETACH, uintptr(pid), 0, uintptr(sig), 0, 0); errno != 0 {
		return errno
	}
	return nil
}

func dial(network, address string) error {
	c, err := net.Dial(network, address) //nolint:noctx // To this machine.
	if err != nil {
		return err
	}
	_, err = c.Write([]byte("x"))
	_ = c.Close()
	return err
}

func namespace() error {
	cmd := exec.Command("/bin/true") //nolint:noctx // It ends at once.
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER}
	return cmd.Run()
}

// capability fails if the process has no capability and can get none.
func capability() error {
	head, data := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, [2]unix.CapUserData{}
	if err := unix.Capget(&head, &data[0]); err != nil {
		return err
	}
	for c := range 41 {
		in, _ := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(c), 0, 0, 0)
		if data[c/32].Permitted&(1<<(c%32)) != 0 || in == 1 {
			return nil
		}
	}
	return unix.EPERM
}

func privileges() error {
	if no, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || no == 1 {
		return unix.EPERM
	}
	return nil
}

// child starts a process and ends it by a signal.
func child() error {
	cmd := exec.Command("/bin/sleep", "60") //nolint:noctx // It is killed.
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := cmd.Process.Kill(); err != nil {
		return err
	}
	_ = cmd.Wait()
	return nil
}

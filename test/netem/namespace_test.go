package netem

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// The addresses of the two ends.
var address = [2]string{"10.88.0.1", "10.88.0.2"}

// namespace is a network namespace that lives as long as its descriptor is open.
type namespace struct{ file *os.File }

// newNamespace makes one, with the congestion control that most machines have.
func newNamespace() (*namespace, error) {
	var ns *namespace
	err := aside(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return os.NewSyscallError("unshare", err)
		}
		f, err := os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
		if err != nil {
			return err
		}
		if err := run("ip", "link", "set", "lo", "up"); err != nil {
			return errors.Join(err, f.Close())
		}
		ns = &namespace{f}
		return nil
	})
	return ns, err
}

// do runs a function in the namespace.
func (ns *namespace) do(f func() error) error {
	return aside(func() error {
		if err := unix.Setns(int(ns.file.Fd()), unix.CLONE_NEWNET); err != nil {
			return os.NewSyscallError("setns", err)
		}
		return f()
	})
}

// aside runs a function on a thread of its own, which ends with it.
func aside(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // Never unlocked: the thread is of no use to others.
		done <- f()
	}()
	return <-done
}

func run(name string, args ...string) error {
	var out bytes.Buffer
	c := exec.Command(name, args...)
	c.Stdout, c.Stderr = &out, &out
	if err := c.Run(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(out.String()))
	}
	return nil
}

// tun makes a TUN device in the namespace and brings it up with an address.
func (ns *namespace) tun(addr string) (*os.File, error) {
	var file *os.File
	err := ns.do(func() error {
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err != nil {
			return os.NewSyscallError("open /dev/net/tun", err)
		}
		req, err := unix.NewIfreq("far")
		if err == nil {
			req.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
			err = os.NewSyscallError("TUNSETIFF", unix.IoctlIfreq(fd, unix.TUNSETIFF, req))
		}
		if err != nil {
			return errors.Join(err, unix.Close(fd))
		}
		file = os.NewFile(uintptr(fd), "tun")
		return errors.Join(run("ip", "address", "add", addr+"/24", "dev", "far"), run("ip", "link", "set", "far", "mtu", "1500", "txqueuelen", "10000", "up"))
	})
	return file, err
}

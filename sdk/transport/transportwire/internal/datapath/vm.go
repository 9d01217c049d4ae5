package datapath

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// ReadHost copies from an address of another process, all or nothing.
func ReadHost(pid int, dst []byte, addr uint64) error {
	return vm("process_vm_readv", unix.ProcessVMReadv, pid, dst, addr)
}

// WriteHost copies to an address of another process. After an error, some bytes may have been
// written.
func WriteHost(pid int, src []byte, addr uint64) error {
	return vm("process_vm_writev", unix.ProcessVMWritev, pid, src, addr)
}

func vm(name string, call func(int, []unix.Iovec, []unix.RemoteIovec, uint) (int, error), pid int, b []byte, addr uint64) error {
	for len(b) > 0 {
		local := unix.Iovec{Base: &b[0]}
		local.SetLen(len(b))
		n, err := call(pid, []unix.Iovec{local}, []unix.RemoteIovec{{Base: uintptr(addr), Len: len(b)}}, 0)
		if err != nil {
			return os.NewSyscallError(name, err)
		}
		if n <= 0 || n > len(b) {
			return fmt.Errorf("%s: copied %d of %d bytes", name, n, len(b))
		}
		b, addr = b[n:], addr+uint64(n)
	}
	return nil
}

func closeFD(fd int) error { return unix.Close(fd) }

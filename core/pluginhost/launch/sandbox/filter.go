package sandbox

import (
	"bytes"
	"encoding/binary"
	"slices"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/core/pluginhost/launch/internal/keeper"
)

// denied are system calls that no plugin needs and that reach beyond its process.
var denied = []string{
	// other processes
	"ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "pidfd_getfd", "kcmp", "userfaultfd", "perf_event_open",
	// file systems and namespaces
	"mount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "fsopen", "fsmount", "fsconfig", "fspick", "mount_setattr",
	"unshare", "setns", "open_by_handle_at", "swapon", "swapoff", "quotactl", "quotactl_fd", "acct",
	// the kernel
	"init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "bpf", "reboot", "syslog", "iopl", "ioperm", "vhangup",
	"settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "sethostname", "setdomainname",
	// keys
	"keyctl", "add_key", "request_key",
}

// outward are denied without a network. The host connects to the plugin; a plugin that connects could reach the socket files
// of services, which Landlock does not cover. Requests in a ring pass by the filter.
var outward = []string{"connect", "io_uring_setup", "io_uring_enter", "io_uring_register"}

const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// filter returns the seccomp filter of a policy. A denied call fails with EPERM.
func filter(p Policy) ([]unix.SockFilter, error) {
	machine, err := arch.GetInfo("")
	if err != nil {
		return nil, err
	}
	names := denied
	if !p.Network {
		names = slices.Concat(names, outward)
	}
	names = slices.DeleteFunc(slices.Clone(names), func(n string) bool { _, known := machine.SyscallNames[n]; return !known })
	deny := seccomp.SyscallGroup{Action: seccomp.ActionErrno | seccomp.Action(unix.EPERM), Names: names, NamesWithCondtions: []seccomp.NameWithConditions{
		{Name: "clone", Conditions: []seccomp.Condition{{Argument: 0, Operation: seccomp.BitsSet, Value: namespaces}}},
	}}
	if !p.Network {
		deny.NamesWithCondtions = append(deny.NamesWithCondtions, seccomp.NameWithConditions{
			Name: "socket", Conditions: []seccomp.Condition{{Argument: 0, Operation: seccomp.NotEqual, Value: unix.AF_UNIX}},
		})
	}
	// The flags of clone3 are in memory, which a filter cannot read; C libraries use clone where clone3 is not known.
	hide := seccomp.SyscallGroup{Action: seccomp.ActionErrno | seccomp.Action(unix.ENOSYS), Names: []string{"clone3"}}
	policy := seccomp.Policy{DefaultAction: seccomp.ActionAllow, Syscalls: []seccomp.SyscallGroup{hide, deny}}
	rest, err := policy.Assemble()
	if err != nil {
		return nil, err
	}
	// The library lets calls of another architecture pass, such as 32-bit calls on amd64.
	const archAt = 4
	all := append([]bpf.Instruction{
		bpf.LoadAbsolute{Off: archAt, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(machine.ID), SkipTrue: 1}, //nolint:gosec // A constant of 32 bits.
		bpf.RetConstant{Val: uint32(seccomp.ActionErrno) | uint32(unix.EPERM)},
	}, rest...)
	raw, err := bpf.Assemble(all)
	if err != nil {
		return nil, err
	}
	out := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		out[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	return out, nil
}

// program returns a struct sock_fprog, and places the instructions.
func program(f []unix.SockFilter, place keeper.Place) []byte {
	var list, head bytes.Buffer
	_ = binary.Write(&list, binary.NativeEndian, f)
	_ = binary.Write(&head, binary.NativeEndian, struct {
		Len  uint16
		_    [6]byte
		Addr uint64
	}{Len: uint16(len(f)), Addr: place(list.Bytes())}) //nolint:gosec // The library bounds it.
	return head.Bytes()
}

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Rights to files, see landlock(7).
const (
	rightsRun      = unix.LANDLOCK_ACCESS_FS_EXECUTE
	rightsReadFile = unix.LANDLOCK_ACCESS_FS_READ_FILE
	rightsRead     = rightsReadFile | unix.LANDLOCK_ACCESS_FS_READ_DIR
	// rightsFile are those that apply to a file that is no folder.
	rightsFile = rightsRun | rightsReadFile | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	// rightsAll are all of version 5.
	rightsAll = rightsFile | rightsRead | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER
	// rightsWrite are those to a folder that the process may use as its own, without devices and programs.
	rightsWrite = rightsAll &^ (rightsRun | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK)
)

// The files that every process may use. Each of them is readable for every user of a machine.
var (
	programFolders = []string{"/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin", "/nix/store", "/gnu/store", "/etc/alternatives"}
	readable       = []string{
		"/proc", "/sys",
		"/etc/ld.so.cache", "/etc/ld.so.preload", "/etc/ld.so.conf", "/etc/ld.so.conf.d",
		"/etc/hosts", "/etc/host.conf", "/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/gai.conf", "/etc/services", "/etc/protocols",
		"/etc/localtime", "/etc/timezone", "/etc/passwd", "/etc/group", "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/pki/tls/certs",
		"/etc/pki/ca-trust", "/etc/ca-certificates", "/etc/libibverbs.d", "/etc/rdma", "/dev/random", "/dev/urandom",
	}
	writable = []string{"/dev/null", "/dev/zero", "/dev/full"}
)

// ruleset makes a Landlock ruleset of a policy for a version of the interface.
func ruleset(p Policy, version int) (*os.File, error) {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: rightsOf(version)}
	if version >= landlockNet && !p.Network {
		attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	if version >= landlockScope {
		attr.Scoped = unix.LANDLOCK_SCOPE_SIGNAL
		if !p.Peers {
			attr.Scoped |= unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
		}
	}
	// A kernel refuses a longer attribute only if what it does not know is set.
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return nil, os.NewSyscallError("landlock_create_ruleset", errno)
	}
	set := os.NewFile(fd, "landlock ruleset")
	if err := allow(set, p, attr.Handled_access_fs); err != nil {
		_ = set.Close()
		return nil, err
	}
	return set, nil
}

// rightsOf returns the rights that a version knows.
func rightsOf(version int) uint64 {
	rights := uint64(rightsAll)
	for right, since := range map[uint64]int{
		unix.LANDLOCK_ACCESS_FS_REFER: landlockRefer, unix.LANDLOCK_ACCESS_FS_TRUNCATE: landlockTruncate, unix.LANDLOCK_ACCESS_FS_IOCTL_DEV: landlockIoctl,
	} {
		if version < since {
			rights &^= right
		}
	}
	return rights
}

// allow adds the rules of a policy.
func allow(set *os.File, p Policy, known uint64) error {
	for _, r := range []struct {
		rights uint64
		paths  []string
	}{
		{rightsRun | rightsRead, programFolders},
		{rightsRead, readable},
		{rightsRun | rightsRead, p.Read},
		{rightsReadFile | unix.LANDLOCK_ACCESS_FS_WRITE_FILE, writable},
		{rightsWrite, p.Write},
	} {
		for _, path := range r.paths {
			if err := allowPath(set, path, r.rights&known); err != nil {
				return err
			}
		}
	}
	return nil
}

// allowPath adds a rule for a file or a folder and what is below. It adds none if there is no such file.
func allowPath(set *os.File, path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENXIO):
		return nil // The process could not use it either.
	case err != nil:
		return fmt.Errorf("sandbox: open %s: %w", path, err)
	}
	defer unix.Close(fd) //nolint:errcheck // Only looked at.
	if err := addRule(set, fd, rights); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func addRule(set *os.File, fd int, rights uint64) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= rightsFile
	}
	attr := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)} //nolint:gosec // A descriptor.
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, set.Fd(), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&attr)), 0, 0, 0)
	if errno != 0 {
		return os.NewSyscallError("landlock_add_rule", errno)
	}
	return nil
}

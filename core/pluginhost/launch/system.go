package launch

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// system is the part of the machine that a test replaces.
type system struct {
	// start starts a command that is to be traced; nil calls its Start.
	start func(*exec.Cmd) error
	// cgroups returns the folders below which groups are made; nil asks the kernel.
	cgroups func() []hierarchy
	// user returns the user whose processes the kernel counts; nil asks the kernel.
	user func() int
	// noKeeper is the reason why there is no keeper; nil makes a keeper if possible.
	noKeeper error
}

func (s system) trace(cmd *exec.Cmd) error {
	if s.start != nil {
		return s.start(cmd)
	}
	return cmd.Start()
}

func (s system) uid() int {
	if s.user != nil {
		return s.user()
	}
	return os.Getuid()
}

func (s system) hierarchies() []hierarchy {
	if s.cgroups != nil {
		return s.cgroups()
	}
	return mounted()
}

// tasks counts the processes and threads of a user, as the kernel does for RLIMIT_NPROC.
// It does not count processes that it cannot read.
func tasks(uid int) uint64 {
	var n uint64
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err != nil {
			continue
		}
		if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != uid {
			continue
		}
		text, _ := os.ReadFile(filepath.Join(dir, "status"))
		_, after, _ := strings.Cut(string(text), "\nThreads:")
		line, _, _ := strings.Cut(after, "\n")
		threads, _ := strconv.ParseUint(strings.TrimSpace(line), 10, 32)
		n += threads
	}
	return n
}

package sandbox

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/core/pluginhost/launch/internal/keeper"
)

// Kernel says what the running kernel can enforce.
type Kernel struct {
	// Landlock is the version of its interface, 0 without Landlock.
	Landlock int
	// Seccomp reports that it takes filters.
	Seccomp bool
}

// Probe asks the running kernel. It changes nothing.
func Probe() Kernel {
	var k Kernel
	if v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION); errno == 0 {
		k.Landlock = int(v) //nolint:gosec // A small number.
	}
	// A filter at address 0 is refused with EFAULT where filters are known.
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, 0)
	k.Seccomp = errno == unix.EFAULT
	return k
}

// Missing lists what the kernel cannot enforce, for people.
func (k Kernel) Missing() []string {
	var out []string
	switch {
	case k.Landlock == 0:
		out = append(out, "files, processes (the kernel has no Landlock: Linux 5.13 with landlock in lsm=)")
	case k.Landlock < landlockTruncate:
		out = append(out, "truncating files, signals (Landlock before Linux 6.12)")
	case k.Landlock < landlockScope:
		out = append(out, "signals (Landlock before Linux 6.12)")
	}
	if !k.Seccomp {
		out = append(out, "system calls (the kernel has no seccomp filters)")
	}
	return out
}

const noCapabilities = "no capabilities"

// String says what the kernel enforces.
func (k Kernel) String() string {
	parts := []string{"no new privileges", noCapabilities}
	if k.Landlock > 0 {
		parts = append(parts, fmt.Sprintf("landlock %d", k.Landlock))
	}
	if k.Seccomp {
		parts = append(parts, "seccomp")
	}
	return strings.Join(parts, ", ")
}

// Box is a prepared sandbox for one process.
type Box struct {
	// Ruleset is an open file that the process inherits, nil without Landlock. The caller closes it.
	Ruleset *os.File
	// Missing lists what is not enforced.
	Missing []string

	kernel Kernel
	keep   uint64 // the capabilities of this process that stay, one bit each
	filter []unix.SockFilter
}

// Prepare makes a sandbox for one process that this process starts. It restricts nothing. It fails if the kernel
// refuses what it said it can do.
func Prepare(p Policy) (*Box, error) { return prepare(p, Probe()) }

func prepare(p Policy, k Kernel) (*Box, error) {
	b := &Box{kernel: k, Missing: k.Missing()}
	if _, permitted := own(); p.Memory {
		b.keep = permitted & (1 << unix.CAP_IPC_LOCK)
	}
	var err error
	if k.Seccomp {
		if b.filter, err = filter(p); err != nil {
			return nil, err
		}
	}
	if k.Landlock > 0 {
		if b.Ruleset, err = ruleset(p, k.Landlock); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// String says what the process is left with and what is enforced.
func (b *Box) String() string {
	text := b.kernel.String()
	if b.keep != 0 {
		text = strings.Replace(text, noCapabilities, "no capabilities but ipc_lock", 1)
	}
	if len(b.Missing) > 0 {
		text += ", not enforced: " + strings.Join(b.Missing, ", ")
	}
	return text
}

// Steps returns the system calls by which the process restricts itself. ruleset is the number that Ruleset has there.
func (b *Box) Steps(ruleset int) func(keeper.Place) []keeper.Step {
	return func(place keeper.Place) []keeper.Step { return b.plan(ruleset, place).steps }
}

// StepName says what a step is for; number counts from 1.
func (b *Box) StepName(number int) string {
	names := b.plan(0, func([]byte) uint64 { return 0 }).names
	if number < 1 || number > len(names) {
		return "an unknown step"
	}
	return names[number-1]
}

func (b *Box) plan(ruleset int, place keeper.Place) plan {
	var p plan
	p.add(stepPrivileges, unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1)
	b.capabilities(&p, place)
	if b.Ruleset != nil {
		p.add(stepLandlock, unix.SYS_LANDLOCK_RESTRICT_SELF, uint64(ruleset)) //nolint:gosec // A descriptor.
		p.add(stepLandlock, unix.SYS_CLOSE, uint64(ruleset))                  //nolint:gosec // A descriptor.
	}
	if len(b.filter) > 0 {
		p.add(stepSeccomp, unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, place(program(b.filter, place)))
	}
	return p
}

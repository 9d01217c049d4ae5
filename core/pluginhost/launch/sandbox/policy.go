package sandbox

import "github.com/mooncake-go/mooncake/core/pluginhost/launch/internal/keeper"

// Mode says whether processes of plugins are restricted.
type Mode string

// The modes. The empty one is ModeOff.
const (
	ModeAuto    Mode = "auto"    // what the machine can enforce
	ModeOff     Mode = "off"     // nothing
	ModeRequire Mode = "require" // everything, or the plugin does not run
)

// Policy is what one process keeps. Files that do not exist are left out.
type Policy struct {
	Mode Mode
	// Memory keeps CAP_IPC_LOCK, to register memory.
	Memory bool
	// Network keeps sockets of all families, connections, and io_uring. Without it a process may only listen at unix
	// sockets.
	Network bool
	// Peers keeps connections to abstract unix sockets of other processes.
	Peers bool
	// Read and Write are absolute paths of files and folders, besides those that every plugin may read.
	// What may be written may be read.
	Read, Write []string
}

// The versions of Landlock's interface that bring what this package uses.
const (
	landlockRefer    = 2 // Linux 5.19
	landlockTruncate = 3 // Linux 6.2
	landlockNet      = 4 // Linux 6.7
	landlockIoctl    = 5 // Linux 6.10
	landlockScope    = 6 // Linux 6.12
)

// The steps, for errors.
const (
	stepPrivileges   = "no new privileges"
	stepCapabilities = "capabilities"
	stepLandlock     = "Landlock"
	stepSeccomp      = "seccomp"
)

// plan is the list of calls; the names say what each is for.
type plan struct {
	steps []keeper.Step
	names []string
}

func (p *plan) add(name string, number uint64, args ...uint64) {
	s := keeper.Step{Number: number}
	copy(s.Args[:], args)
	p.steps, p.names = append(p.steps, s), append(p.names, name)
}

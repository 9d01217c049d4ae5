package memory

import (
	"io/fs"
	"log/slog"
	"os"
	"runtime/debug"
)

const (
	// goShare of a control group's limit stays free for what this process does not count: page tables, sockets, plugins in processes of
	// their own.
	goShare = 10
	// goLeast is the least that a heap is limited to. Below it the collector would work all the time.
	goLeast = 64 << 20
)

// GoLimit says how much memory the Go runtime of a process may take.
type GoLimit struct {
	// Fixed is the limit in bytes, 0 to derive it from the control group; Off leaves the runtime as it is.
	Fixed uint64
	Off   bool
	// Outside is how much of the control group's memory the process maps itself, such as segments, in bytes.
	Outside uint64
}

// Apply sets the limit of the runtime, and logs what it is and why. Without a fixed limit it does not change a runtime that has
// one by GOMEMLIMIT, and sets none where the control group has none or leaves too little. It returns the limit that it has
// set, 0 for none. root is as for ReadLimits.
func (l GoLimit) Apply(root fs.FS, log *slog.Logger) uint64 {
	group, environ := ReadLimits(root).Cgroup, os.Getenv("GOMEMLIMIT")
	limit, from := l.choose(group, environ)
	switch {
	case limit > 0:
		debug.SetMemoryLimit(int64(limit))
		log.Info("the Go runtime is limited in memory", "limit", Human(limit), "from", from, "cgroup", orNone(group), "outside", Human(l.Outside))
	case from == fromGroup:
		log.Warn("the control group leaves too little memory for a limit of the Go runtime: the kernel may end this process; raise the limit of the container or service, or contribute less",
			"cgroup", Human(group), "outside", Human(l.Outside), "needed", Human(l.Outside+group/goShare+goLeast))
	default:
		log.Debug("the Go runtime is not limited in memory here", "because", from)
	}
	return limit
}

// Where a limit comes from, or why there is none.
const (
	fromSetting = "memory.go_limit"
	fromEnviron = "GOMEMLIMIT"
	fromGroup   = "the control group"
	fromNothing = "no control group limits this process"
)

// choose returns the limit, 0 for none, and whose it is.
func (l GoLimit) choose(group uint64, environ string) (limit uint64, from string) {
	switch {
	case l.Off:
		return 0, fromSetting
	case l.Fixed > 0:
		return l.Fixed, fromSetting
	case environ != "":
		return 0, fromEnviron
	case group == 0:
		return 0, fromNothing
	}
	if taken := group/goShare + l.Outside; group >= taken && group-taken >= goLeast {
		limit = group - taken
	}
	return limit, fromGroup
}

// orNone is Human, and none for 0.
func orNone(n uint64) string {
	if n == 0 {
		return "none"
	}
	return Human(n)
}

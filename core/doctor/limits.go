package doctor

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/sdk/x/advice"
)

// unlimited is a limit that is none.
const unlimited = math.MaxUint64

// limit returns the hard limit of a line of /proc/self/limits, false where there is none.
// The soft limit is raised to it when the program starts.
func (e *exam) limit(name string) (uint64, bool) {
	for line := range strings.SplitSeq(e.text("proc/self/limits"), "\n") {
		rest, is := strings.CutPrefix(line, name)
		if !is {
			continue
		}
		f := strings.Fields(rest)
		if len(f) < 2 {
			return 0, false
		}
		if f[1] == "unlimited" {
			return unlimited, true
		}
		n, err := strconv.ParseUint(f[1], 10, 64)
		return n, err == nil
	}
	return 0, false
}

// capIPCLock is the bit of CAP_IPC_LOCK, which lifts the limit on locked memory.
const capIPCLock = 14

// memlock compares the limit on locked memory with what RDMA locks.
func (e *exam) memlock(context.Context) Result {
	n, known := e.limit("Max locked memory")
	if !known {
		return warn("/proc/self/limits cannot be read", "whether RDMA can lock its memory is not known", "mount /proc")
	}
	found := "unlimited"
	if n != unlimited {
		found = memory.Human(n)
	}
	if e.privileged() {
		found += ", and CAP_IPC_LOCK lifts it"
		n = unlimited
	}
	need := e.hard(1) + e.wish(1)
	if !e.usesRDMA() {
		return ok("%s; only RDMA locks memory, and store.transports has none", found)
	}
	if n < need {
		a := advice.Memlock(need, n)
		return fail(fmt.Sprintf("%s, and RDMA locks %s", found, memory.Human(need)), a.Why, a.Do)
	}
	return ok("%s", found)
}

func (e *exam) privileged() bool {
	for line := range strings.SplitSeq(e.text("proc/self/status"), "\n") {
		if hex, is := strings.CutPrefix(line, "CapEff:"); is {
			caps, err := strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
			return err == nil && caps>>capIPCLock&1 == 1
		}
	}
	return false
}

// files looks at the limit on open files: a peer takes a few connections.
func (e *exam) files(context.Context) Result {
	n, known := e.limit("Max open files")
	const do = "ulimit -n 65536; LimitNOFILE=65536 in a systemd unit; --ulimit nofile=65536 for a container"
	switch {
	case !known:
		return warn("/proc/self/limits cannot be read", "how many connections there can be is not known", "mount /proc")
	case n == unlimited:
		return ok("unlimited")
	case n < 1024:
		return fail(fmt.Sprint(n), "each peer takes a few connections; with this few the role cannot serve a pool", do)
	case n < 65536:
		return warn(fmt.Sprint(n), "each peer takes a few connections; a pool with many clients runs out", do)
	default:
		return ok("%d", n)
	}
}

// cpu says how many CPUs the process gets.
func (e *exam) cpu(context.Context) Result {
	cpus := 0
	for line := range strings.SplitSeq(e.text("proc/self/status"), "\n") {
		if list, is := strings.CutPrefix(line, "Cpus_allowed_list:"); is {
			cpus = listed(strings.TrimSpace(list))
		}
	}
	if cpus == 0 {
		return warn("/proc/self/status does not say which CPUs there are", "whether they suffice is not known", "mount /proc")
	}
	found, share := count(cpus, "CPU"), float64(cpus)
	if quota, period, limited := e.quota(); limited {
		share = min(share, quota/period)
		found += fmt.Sprintf(", the control group allows %.3g", quota/period)
	}
	if share < 2 {
		return warn(found, "checksums, copies and the network share what there is, and a process that is out of quota stands still for up to 100 ms",
			"give the role two CPUs or more, or no quota")
	}
	return ok("%s", found)
}

// checksum says which code computes checksums, and how fast it is.
func (e *exam) checksum(context.Context) Result {
	name, rate, err := e.Checksum()
	found := fmt.Sprintf("CRC32C by the kernel %s, %.1f GB/s while it copies", name, rate/1e9)
	switch {
	case err != nil:
		return warn(found, err.Error(), "set MOONCAKE_CRC32C_KERNEL to a kernel of this processor, or unset it")
	case name == "portable":
		return warn(found, "each copy and its checksum take two passes, because no kernel suits this processor or MOONCAKE_CRC32C_KERNEL names none",
			"unset the variable, or let the virtual machine have SSE4.2, AVX2 and VPCLMULQDQ of its host")
	default:
		return ok("%s", found)
	}
}

// quota is the control group's CPU time in a period.
func (e *exam) quota() (quota, period float64, limited bool) {
	text, has := e.group("cpu", "cpu.max", "cpu.cfs_quota_us", func(s string) bool { return s != "-1" && !strings.HasPrefix(s, "max") })
	if !has {
		return 0, 0, false
	}
	if p, known := e.group("cpu", "cpu.max", "cpu.cfs_period_us", func(string) bool { return true }); known && !strings.Contains(text, " ") {
		text += " " + p
	}
	if n, err := fmt.Sscan(text, &quota, &period); n != 2 || err != nil || period <= 0 {
		return 0, 0, false
	}
	return quota, period, true
}

// listed counts the numbers of a list such as "0-3,8".
func listed(text string) int {
	n := 0
	for part := range strings.SplitSeq(text, ",") {
		low, high, span := strings.Cut(part, "-")
		if !span {
			high = low
		}
		a, errA := strconv.Atoi(low)
		b, errB := strconv.Atoi(high)
		if errA == nil && errB == nil && a <= b {
			n += b - a + 1
		}
	}
	return n
}

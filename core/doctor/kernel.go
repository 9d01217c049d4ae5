package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/core/memory"
)

// kernel looks at the version and at the settings of the kernel that the pool meets.
func (e *exam) kernel(context.Context) Result {
	release := e.text("proc/sys/kernel/osrelease")
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		return warn(fmt.Sprintf("version %q cannot be read", release), "whether it has what the pool needs is not known", "mount /proc")
	}
	r := ok("Linux %s", release)
	if n, known := e.number("proc/sys/kernel/io_uring_disabled"); known && n > 0 {
		r.Details = append(r.Details, fmt.Sprintf("io_uring is switched off (kernel.io_uring_disabled is %d)", n))
	}
	used, _ := e.number("proc/sys/fs/aio-nr")
	if most, known := e.number("proc/sys/fs/aio-max-nr"); known {
		r.Details = append(r.Details, fmt.Sprintf("asynchronous I/O: %d of %d requests taken", used, most))
	}
	before := func(a, b int) bool { return major < a || major == a && minor < b }
	overcommit, _ := e.number("proc/sys/vm/overcommit_memory")
	switch {
	case before(4, 14):
		r.Status, r.Why = Fail, "shared memory with huge pages (memfd_create) needs 4.14 or later"
		r.Do = "use a newer kernel"
	case overcommit == 2:
		r.Status, r.Why = Warn, "vm.overcommit_memory is 2: the whole segment counts as used from the start, and the kernel may refuse to map it"
		r.Do = "run as root: sysctl -w vm.overcommit_memory=0"
	case before(5, 14):
		r.Status, r.Why = Warn, "before 5.14 memory is touched page by page, which makes the start with huge pages slow"
		r.Do = "use 5.14 or later"
	}
	return r
}

// clock looks at the clocks: leases run on the monotonic one, logs and times of expiry that
// are shown on the other.
func (e *exam) clock(context.Context) Result {
	c, err := e.Clock()
	if err != nil {
		return warn("the clock's state cannot be read: "+err.Error(), "whether a time service sets it is not known", "permit adjtimex in the container's seccomp profile")
	}
	source := e.text("sys/devices/system/clocksource/clocksource0/current_clocksource")
	sync := "not synchronised"
	if c.Synchronised {
		sync = fmt.Sprintf("synchronised within %v", c.MaxError.Round(time.Millisecond))
	}
	found := fmt.Sprintf("%s, %s", c.Now.UTC().Format(time.DateOnly), sync)
	if source != "" {
		found += ", source " + source
	}
	switch {
	case c.Now.Year() < 2025:
		return fail(found, "the clock was never set: logs, certificates and times of expiry are wrong", "start chrony or systemd-timesyncd, and set the clock")
	case !c.Synchronised:
		return warn(found, "logs of several machines cannot be laid side by side; leases are not touched, they run on the monotonic clock",
			"start chrony, ntpd or systemd-timesyncd on the host")
	case slices.Contains([]string{"hpet", "acpi_pm", "jiffies", "pit"}, source):
		return warn(found, "reading this clock is a slow access to a device, on every operation", "boot with clocksource=tsc where the CPU has a constant one")
	case c.Suspended > 0:
		return warn(fmt.Sprintf("%s, suspended for %v since the boot", found, c.Suspended),
			"the monotonic clock stands still meanwhile: leases and the time of silent nodes are longer by that", "do not suspend machines of a pool")
	}
	return ok("%s", found)
}

// shm looks at /dev/shm, by which processes of this host hand segments to the store.
func (e *exam) shm(context.Context) Result {
	const why = "processes of this host that hand memory to the store through /dev/shm get no more than that"
	for line := range strings.SplitSeq(e.text("proc/self/mounts"), "\n") {
		f := strings.Fields(line)
		if len(f) < 4 || f[1] != "/dev/shm" {
			continue
		}
		size := memory.ReadLimits(e.Root).Physical / 2 // tmpfs without a size
		for opt := range strings.SplitSeq(f[3], ",") {
			if text, has := strings.CutPrefix(opt, "size="); has {
				size = tmpfsSize(text, size*2)
			}
		}
		found := fmt.Sprintf("/dev/shm holds %s", memory.Human(size))
		if size < 1<<30 {
			return warn(found, why, "start the container with --shm-size, or mount an emptyDir of medium Memory on /dev/shm")
		}
		return ok("%s", found)
	}
	return warn("/dev/shm is not mounted", why, "mount -t tmpfs tmpfs /dev/shm")
}

// tmpfsSize reads the option size of tmpfs: a number with k, m, g or %.
func tmpfsSize(text string, physical uint64) uint64 {
	unit := text[max(0, len(text)-1):]
	shift, scaled := map[string]uint{"k": 10, "m": 20, "g": 30}[strings.ToLower(unit)]
	var n uint64
	if _, err := fmt.Sscan(strings.TrimRight(text, "kKmMgG%"), &n); err != nil {
		return 0
	}
	switch {
	case unit == "%":
		return physical / 100 * min(n, 100)
	case scaled && n < 1<<(64-shift):
		return n << shift
	default:
		return n
	}
}

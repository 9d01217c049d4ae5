package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/mooncake-go/mooncake/core/memory"
)

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

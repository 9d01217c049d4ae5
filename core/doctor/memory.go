package doctor

import (
	"context"
	"errors"
	"fmt"

	"github.com/mooncake-go/mooncake/core/memory"
)

// spare is the memory that a process takes besides segments and buffers, in bytes.
const spare = 256 << 20

// hard and wish are the bytes that the node maps: hard without which it does not start,
// wish which it does without.
func (e *exam) hard(page uint64) uint64 {
	s := e.cfg.Store
	return roundUp(uint64(s.GlobalSegmentSize), page) + roundUp(uint64(s.LocalBufferSize), page)
}

func (e *exam) wish(page uint64) uint64 {
	if e.cfg.Store.DisableMmapArena {
		return 0
	}
	return roundUp(uint64(e.cfg.Store.MmapArenaPoolSize), page)
}

func roundUp(n, page uint64) uint64 { return (n + page - 1) / page * page }

// memory compares what the role maps with what the machine and the control group have.
func (e *exam) memory(context.Context) Result {
	l := memory.ReadLimits(e.Root)
	if l.Physical == 0 {
		return warn("/proc/meminfo cannot be read", "whether the memory suffices is not known", "mount /proc")
	}
	found := fmt.Sprintf("%s, %s available", memory.Human(l.Physical), memory.Human(l.Available))
	if l.Cgroup != 0 {
		found += fmt.Sprintf(", the control group allows %s", memory.Human(l.Cgroup))
	}
	need := uint64(0)
	if e.node() {
		need = e.hard(1) + e.wish(1)
		found += fmt.Sprintf("; %s for segment and buffers", memory.Human(need))
	}
	if err := l.Check(need); err != nil {
		return fail(found, "the node refuses to start: "+cause(err), "lower store.global_segment_size, or give the machine or container more")
	}
	if e.cfg.Store.UseHugepage && e.node() {
		return ok("%s in huge pages", found)
	}
	if l.Cgroup != 0 && need+spare > l.Cgroup {
		return warn(found, "when the pool is full the kernel ends the process, since the control group has nothing left for the rest of it",
			fmt.Sprintf("leave at least %s above segment and buffers", memory.Human(spare)))
	}
	if l.Available != 0 && need > l.Available {
		return warn(found, "pages are taken when objects arrive: other processes hold the memory that the segment will need",
			"end what holds it, or lower store.global_segment_size")
	}
	return ok("%s", found)
}

// cause is the reason of a shortage without the code and the hint around it.
func cause(err error) string {
	var s *memory.Shortage
	if errors.As(err, &s) {
		return s.Error()
	}
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	return err.Error()
}

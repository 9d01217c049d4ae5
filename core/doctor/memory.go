package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/mooncake-go/mooncake/core/memory"
)

// overhead is the memory that a process takes besides segments and buffers, in bytes.
const overhead = 256 << 20

// hard and wish are the bytes that the node maps: hard without which it does not start,
// wish which it does without.
func (e *exam) hard(page uint64) uint64 {
	s := e.cfg.Store
	n := roundUp(uint64(s.GlobalSegmentSize), page) + roundUp(uint64(s.LocalBufferSize), page)
	if s.EnableOffload && s.GlobalSegmentSize > 0 {
		n += roundUp(uint64(s.OffloadBufferSize), page)
	}
	return n
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
		if e.directory().DAX {
			need -= uint64(e.cfg.Store.GlobalSegmentSize) // It is no memory of the machine.
		}
		found += fmt.Sprintf("; %s for segment and buffers", memory.Human(need))
	}
	if err := l.Check(need); err != nil {
		return fail(found, "the node refuses to start: "+cause(err), "lower store.global_segment_size, or give the machine or container more")
	}
	if e.cfg.Store.UseHugepage && e.node() {
		return ok("%s in huge pages", found)
	}
	if l.Cgroup != 0 && need+overhead > l.Cgroup {
		return warn(found, "when the pool is full the kernel ends the process, since the control group has nothing left for the rest of it",
			fmt.Sprintf("leave at least %s above segment and buffers", memory.Human(overhead)))
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

// numa says how memory and CPUs are spread, and whether the node that was asked for is there.
func (e *exam) numa(context.Context) Result {
	nodes, err := memory.ReadNodes(e.Root)
	if err != nil {
		return warn("the NUMA nodes cannot be read: "+err.Error(), "store.numa_node cannot be checked", "mount /sys")
	}
	r := ok("%s", count(len(nodes), "node"))
	for _, n := range nodes {
		if len(nodes) > 1 {
			cpus := "no CPUs"
			if n.CPUs != "" {
				cpus = "CPUs " + n.CPUs
			}
			line := fmt.Sprintf("node %d: %s", n.ID, cpus)
			if n.Total > 0 {
				line += fmt.Sprintf(", %s of %s free", memory.Human(n.Free), memory.Human(n.Total))
			}
			if n.Huge2M+n.Huge1G > 0 {
				line += fmt.Sprintf(", %d huge pages of 2MB and %d of 1GB free", n.Huge2M, n.Huge1G)
			}
			r.Details = append(r.Details, line)
		}
	}
	if len(nodes) == 0 {
		r.Found = "the kernel shows no nodes"
	}
	s, page := e.cfg.Store, memory.HugeNone
	if s.UseHugepage {
		page, _ = memory.ParseHugePages(s.HugepageSize) //nolint:errcheck // The check of huge pages says so.
	}
	if err := memory.OnNode(s.NUMANode, s.NUMAStrict).Check(e.Root, page, e.hard(max(1, uint64(page)))); err != nil {
		r.Status = Fail
		r.Why = fmt.Sprintf("the node refuses to start with store.numa_node %d: %s", s.NUMANode, cause(err))
		r.Do = shortageStep(err, "set store.numa_node to a node that is there and large enough, or to -1, or store.numa_strict to false")
	}
	return r
}

// hugepages compares what is set aside with what the configuration asks for.
func (e *exam) hugepages(context.Context) Result {
	var have []string
	free := uint64(0)
	for _, p := range memory.ReadHugePools(e.Root) {
		text := fmt.Sprintf("%s: %d of %d free", p.Page, p.Available(), p.Total)
		if p.Limited {
			text += fmt.Sprintf(", the control group allows %s", memory.Human(p.Limit))
		}
		have = append(have, text)
		free += p.Available() * uint64(p.Page)
	}
	found := strings.Join(have, "; ")
	if found == "" {
		found = "this kernel has none"
	}
	if !e.cfg.Store.UseHugepage {
		if free > 0 {
			return warn(found+"; store.use_hugepage is off", fmt.Sprintf("%s are set aside and nothing else can use them", memory.Human(free)),
				"set store.use_hugepage, or give them back: sysctl -w vm.nr_hugepages=0")
		}
		return ok("%s; none are asked for", found)
	}
	page, err := memory.ParseHugePages(e.cfg.Store.HugepageSize)
	if err != nil || page == memory.HugeNone {
		return fail(fmt.Sprintf("store.hugepage_size is %q", e.cfg.Store.HugepageSize), "there are no such pages", "set it to 2mb or 1gb")
	}
	const off = "; or set store.use_hugepage to false"
	pool, err := memory.ReadHugePool(e.Root, page)
	if err != nil {
		return fail(found, fmt.Sprintf("store.use_hugepage asks for pages of %s, and the kernel has none of this size", page),
			"boot with hugepagesz="+strings.TrimSuffix(page.String(), "B")+off)
	}
	hard := e.hard(uint64(page))
	hard -= min(e.reused(), hard) // It has these pages.
	if err := pool.Check(hard); err != nil {
		return fail(found, "the node refuses to start: "+cause(err), shortageStep(err, "raise the container's limit on huge pages")+off)
	}
	if wish := e.wish(uint64(page)); wish > 0 {
		if err := pool.Check(hard + wish); err != nil {
			return warn(found, "the arena does not fit, buffers are mapped one by one: "+cause(err), shortageStep(err, "lower store.mmap_arena_pool_size"))
		}
	}
	return ok("%s; %s needed", found, memory.Human(hard+e.wish(uint64(page))))
}

// shortageStep is the command that ends a shortage.
func shortageStep(err error, otherwise string) string {
	var s *memory.Shortage
	if errors.As(err, &s) && s.Run != "" {
		return "run as root: " + s.Run
	}
	return otherwise
}

// transparent looks at transparent huge pages, which make the first touch of memory cheap.
func (e *exam) transparent(context.Context) Result {
	const dir = "sys/kernel/mm/transparent_hugepage/"
	enabled, shmem := chosen(e.text(dir+"enabled")), chosen(e.text(dir+"shmem_enabled"))
	if enabled == "" {
		return ok("this kernel has none")
	}
	if shmem == "" {
		shmem = "not there"
	}
	found := fmt.Sprintf("%s; for shared memory %s", enabled, shmem)
	large := e.cfg.Store.GlobalSegmentSize >= 1<<30 && !e.cfg.Store.UseHugepage
	if large && (shmem == "never" || shmem == "deny" || shmem == "not there") {
		return warn(found, "segments are shared memory: each 4 KiB of a segment costs a page fault when it is first written, and RDMA translates 4 KiB pages",
			"run as root: echo advise > /"+dir+"shmem_enabled")
	}
	return ok("%s", found)
}

// chosen returns the word in brackets of "always [madvise] never".
func chosen(text string) string {
	_, rest, _ := strings.Cut(text, "[")
	word, _, _ := strings.Cut(rest, "]")
	return word
}

package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/mooncake-go/mooncake/core/memory"
)

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

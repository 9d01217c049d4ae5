package doctor

import (
	"context"
	"fmt"

	"github.com/mooncake-go/mooncake/core/memory"
)

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

package memory

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// maxNode is the largest number of a NUMA node that Linux knows.
const maxNode = 1023

// Node is one NUMA node.
type Node struct {
	ID int
	// CPUs is the kernel's list, such as "0-31,64-95"; empty for a node without.
	CPUs string
	// Total and Free are in bytes, 0 where unknown.
	Total, Free uint64
	// Huge2M and Huge1G are the node's free huge pages.
	Huge2M, Huge1G uint64
}

func (n Node) freeHuge(page HugePages) uint64 {
	switch page {
	case Huge2M:
		return n.Huge2M
	case Huge1G:
		return n.Huge1G
	default:
		return 0
	}
}

// ReadNodes lists the NUMA nodes that are online, by number, from a file system rooted at
// "/"; nil means the machine's. A kernel without NUMA has none.
func ReadNodes(root fs.FS) ([]Node, error) {
	root = rootOr(root)
	const base = "sys/devices/system/node"
	b, err := fs.ReadFile(root, base+"/online")
	if err != nil {
		return nil, nil //nolint:nilerr // The kernel was built without NUMA, or hides it.
	}
	ids, err := parseList(string(b))
	if err != nil {
		return nil, fmt.Errorf("read the NUMA nodes: %w", err)
	}
	out := make([]Node, 0, len(ids))
	for _, id := range ids {
		dir := path.Join(base, "node"+strconv.Itoa(id))
		n := Node{ID: id}
		if b, err := fs.ReadFile(root, dir+"/cpulist"); err == nil {
			n.CPUs = strings.TrimSpace(string(b))
		}
		if b, err := fs.ReadFile(root, dir+"/meminfo"); err == nil {
			// Each line starts with "Node 0 ".
			text := []byte(strings.ReplaceAll(string(b), fmt.Sprintf("Node %d ", id), ""))
			n.Total, n.Free = parseMeminfo(text, "MemTotal"), parseMeminfo(text, "MemFree")
		}
		n.Huge2M, _ = readUint(root, poolDir(dir, Huge2M)+"/free_hugepages")
		n.Huge1G, _ = readUint(root, poolDir(dir, Huge1G)+"/free_hugepages")
		out = append(out, n)
	}
	return out, nil
}

// parseList reads the kernel's lists of numbers, such as "0-3,8", of numbers up to maxNode.
func parseList(text string) ([]int, error) {
	var out []int
	for part := range strings.SplitSeq(strings.TrimSpace(text), ",") {
		if part == "" {
			continue
		}
		low, high, span := strings.Cut(part, "-")
		if !span {
			high = low
		}
		a, errA := strconv.Atoi(low)
		b, errB := strconv.Atoi(high)
		if errA != nil || errB != nil || a < 0 || b > maxNode || a > b {
			return nil, fmt.Errorf("%q is not a list of numbers from 0 to %d such as 0-3,8", text, maxNode)
		}
		for n := a; n <= b; n++ {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

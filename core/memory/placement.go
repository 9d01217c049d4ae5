package memory

import (
	"fmt"
	"io/fs"
	"slices"
	"strconv"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Policy says how a block's pages are spread over NUMA nodes.
type Policy uint8

// The policies.
const (
	// Anywhere leaves it to the kernel: the node of the thread that touches a page first.
	Anywhere Policy = iota
	// Prefer takes the node's memory and goes on with another's when it is full.
	Prefer
	// Bind takes the node's memory only.
	Bind
	// Interleave takes turns between the nodes, page by page.
	Interleave
)

// Placement is a Policy with its nodes: one for Prefer and Bind, one or more for
// Interleave. The zero value is Anywhere.
type Placement struct {
	Policy Policy
	Nodes  []int
}

// OnNode places memory on one node: strictly, or by preference. A negative node means
// anywhere.
func OnNode(node int, strict bool) Placement {
	switch {
	case node < 0:
		return Placement{}
	case strict:
		return Placement{Policy: Bind, Nodes: []int{node}}
	default:
		return Placement{Policy: Prefer, Nodes: []int{node}}
	}
}

// location is the name of the place as transports understand it, "*" for several nodes.
func (p Placement) location() string {
	if p.Policy == Anywhere || len(p.Nodes) != 1 {
		return "*"
	}
	return "cpu:" + strconv.Itoa(p.Nodes[0])
}

// Check refuses nodes that are not there and, for Bind, a size that a node cannot hold;
// code InvalidParams. root is rooted at "/", nil means the machine's.
func (p Placement) Check(root fs.FS, page HugePages, size uint64) error {
	if p.Policy == Anywhere {
		return nil
	}
	if len(p.Nodes) == 0 || p.Policy != Interleave && len(p.Nodes) != 1 {
		return errs.New(errs.InvalidParams, "memory: allocate", "a placement on %d NUMA nodes: give one, or interleave over several", len(p.Nodes))
	}
	nodes, err := ReadNodes(root)
	if err != nil {
		return errs.Wrap(errs.Internal, "memory: allocate", err)
	}
	for _, want := range p.Nodes {
		i := slices.IndexFunc(nodes, func(n Node) bool { return n.ID == want })
		if i < 0 {
			return errs.WithHint(errs.New(errs.InvalidParams, "memory: allocate", "NUMA node %d was asked for, this machine has %s", want, nodeNames(nodes)),
				"set store.numa_node to one of them, or to -1 for any")
		}
		if p.Policy != Bind {
			continue
		}
		if err := nodes[i].check(page, size); err != nil {
			return err
		}
	}
	return nil
}

// check reports a node that cannot back size bytes by itself.
func (n Node) check(page HugePages, size uint64) error {
	if page == HugeNone {
		if n.Total == 0 || size <= n.Total {
			return nil
		}
		s := &Shortage{Kind: "memory of NUMA node " + strconv.Itoa(n.ID), Need: size, Have: n.Total,
			text: fmt.Sprintf("%s were asked for on NUMA node %d, which has %s", Human(size), n.ID, Human(n.Total))}
		return s.error("ask for less, or let the node be a preference (store.numa_strict off)")
	}
	need, have := size/uint64(page), n.freeHuge(page)
	if need <= have {
		return nil
	}
	s := &Shortage{Kind: "huge pages of " + page.String(), Need: size, Have: have * uint64(page),
		Run:  fmt.Sprintf("echo %d > /%s/nr_hugepages", need, poolDir("sys/devices/system/node/node"+strconv.Itoa(n.ID), page)),
		text: fmt.Sprintf("%d huge pages of %s are needed on NUMA node %d, %d are free there", need, page, n.ID, have)}
	return s.error("let the node be a preference (store.numa_strict off)")
}

func nodeNames(nodes []Node) string {
	if len(nodes) == 0 {
		return "no NUMA nodes"
	}
	text := "node"
	for i, n := range nodes {
		if i > 0 {
			text += ","
		}
		text += " " + strconv.Itoa(n.ID)
	}
	return text
}

// PieceAlign is the alignment of the pieces of a large segment, in bytes.
const PieceAlign = 4 << 20

// Pieces divides total bytes into as few pieces of at most limit as possible, nearly equal
// and, but for the last, multiples of PieceAlign: what a node mounts when its transport
// registers no more than limit at once. A limit below PieceAlign counts as that.
func Pieces(total, limit uint64) []uint64 {
	if total == 0 {
		return nil
	}
	limit = max(limit/PieceAlign*PieceAlign, PieceAlign)
	n := (total-1)/limit + 1
	each := (total-1)/n + 1
	each = min((each+PieceAlign-1)/PieceAlign*PieceAlign, limit)
	var out []uint64
	for total > 0 {
		p := min(each, total)
		out = append(out, p)
		total -= p
	}
	return out
}

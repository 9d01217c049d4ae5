package show

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mooncake-go/mooncake/core/topology"
)

// Tree draws the machine: NUMA nodes, the PCI bridges where ways part, and the devices.
// Bridges that lead to one device only are left out.
func Tree(w io.Writer, m topology.Machine, c topology.Choice) error {
	var err error
	line := func(prefix, text string) {
		if err == nil {
			_, err = fmt.Fprintln(w, prefix+text)
		}
	}
	known := map[int]bool{}
	for _, n := range m.Nodes {
		known[n.ID] = true
		text := "NUMA node " + fmt.Sprint(n.ID)
		if n.CPUs != "" {
			text += ", CPUs " + n.CPUs
		}
		if n.Memory > 0 {
			text += ", " + memory(n.Memory)
		}
		line("", text)
		draw(line, "", grow(m, c, func(d topology.Device) bool { return d.Node == n.ID }))
	}
	rest := grow(m, c, func(d topology.Device) bool { return !known[d.Node] })
	if len(rest) > 0 {
		line("", "NUMA node not known")
		draw(line, "", rest)
	}
	return err
}

// branch is a bridge with what is below it, or a device.
type branch struct {
	text  string
	below []*branch
}

func draw(line func(prefix, text string), prefix string, branches []*branch) {
	for i, b := range branches {
		fork, down := "├─ ", "│  "
		if i == len(branches)-1 {
			fork, down = "└─ ", "   "
		}
		line(prefix+fork, b.text)
		draw(line, prefix+down, b.below)
	}
}

// leaf is a device with the way that leads to it.
type leaf struct {
	way  []string
	text string
}

// grow makes the branches of the devices that are in.
func grow(m topology.Machine, c topology.Choice, in func(topology.Device) bool) []*branch {
	var leaves []leaf
	add := func(d topology.Device, text string) {
		if in(d) {
			leaves = append(leaves, leaf{append(d.Way(), text), text})
		}
	}
	for _, n := range m.NICs {
		add(n.Device, nicText(n, c))
	}
	for _, n := range m.Nets {
		if n.NIC == "" {
			add(n.Device, "interface "+n.Name+" "+dash(n.State)+speed(n.Speed))
		}
	}
	for _, g := range m.GPUs {
		add(g.Device, "GPU "+g.Name+" "+g.Model)
	}
	slices.SortStableFunc(leaves, func(a, b leaf) int { return slices.Compare(a.way, b.way) })
	return forks(leaves, 0)
}

// forks groups leaves by the step of their way at depth.
func forks(leaves []leaf, depth int) []*branch {
	var out []*branch
	for len(leaves) > 0 {
		step := leaves[0].way[depth]
		n := 1
		for n < len(leaves) && leaves[n].way[depth] == step {
			n++
		}
		out = append(out, fork(leaves[:n], depth))
		leaves = leaves[n:]
	}
	return out
}

// fork is the branch of leaves with the same step at depth: where they part, or the device.
func fork(leaves []leaf, depth int) *branch {
	last := leaves[len(leaves)-1]
	if len(leaves) == 1 {
		text := last.text
		if len(last.way) > 1 {
			text = last.way[len(last.way)-2] + "  " + text
		}
		return &branch{text: text}
	}
	for leaves[0].way[depth+1] == last.way[depth+1] {
		depth++
	}
	step, kind := leaves[0].way[depth], "  PCIe switch"
	switch {
	case strings.HasPrefix(step, "pci"):
		kind = "  PCI host bridge"
	case len(leaves[0].way) == depth+2:
		kind = "" // a function with several devices
	case slot(leaves[0].way[depth+1]) == slot(last.way[depth+1]):
		kind = "  PCIe port" // to a card with several functions
	}
	return &branch{text: step + kind, below: forks(leaves, depth+1)}
}

// slot is the address of a function without the number of the function.
func slot(address string) string {
	s, _, _ := strings.Cut(address, ".")
	return s
}

func nicText(n topology.NIC, c topology.Choice) string {
	text := "NIC " + n.Name
	for _, p := range n.Ports {
		text += fmt.Sprintf(", port %d %s %s%s", p.Number, dash(p.State), dash(p.LinkLayer), speed(p.Rate))
		if p.Netdev != "" {
			text += " " + p.Netdev
		}
	}
	for _, l := range c.Left {
		if l.Device == n.Name {
			text += " (not used: " + l.Why + ")"
		}
	}
	return text
}

func speed(bits uint64) string {
	if bits == 0 {
		return ""
	}
	return " " + rate(bits)
}

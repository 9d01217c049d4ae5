// Package show prints a machine's topology for people and for programs: as tables, as a
// drawn tree, as JSON.
package show

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/mooncake-go/mooncake/core/topology"
)

// Table writes tables of the nodes, the devices, what lies between GPUs and NICs, and the
// matrix over the devices that were chosen.
func Table(w io.Writer, m topology.Machine, c topology.Choice) error {
	t := &tables{w: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	nodes(t, m)
	nics(t, m, c)
	nets(t, m)
	gpus(t, m)
	links(t, m)
	entries(t, c)
	return t.w.Flush()
}

// tables writes rows of cells; a blank line ends a table and its columns.
type tables struct {
	w *tabwriter.Writer
}

func (t *tables) row(cells ...string) {
	fmt.Fprintln(t.w, strings.TrimRight(strings.Join(cells, "\t"), "\t "))
}

func (t *tables) end() { fmt.Fprintln(t.w) }

func nodes(t *tables, m topology.Machine) {
	t.row("NODE", "CPUS", "MEMORY", "DISTANCES")
	for _, n := range m.Nodes {
		t.row(n.Location(), dash(n.CPUs), memory(n.Memory), dash(strings.Trim(fmt.Sprint(n.Distances), "[]")))
	}
	t.end()
}

func nics(t *tables, m topology.Machine, c topology.Choice) {
	if len(m.NICs) == 0 {
		t.row("no RDMA device")
		t.end()
		return
	}
	left := map[string]string{}
	for _, l := range c.Left {
		left[l.Device] = l.Why
	}
	t.row("NIC", "PORT", "STATE", "LINK", "RATE", "NETDEV", "NODE", "PCI", "USED")
	for _, n := range m.NICs {
		used := "yes"
		if why := left[n.Name]; why != "" {
			used = "no: " + why
		}
		for _, p := range n.Ports {
			t.row(n.Name, fmt.Sprint(p.Number), dash(p.State), dash(p.LinkLayer), rate(p.Rate), dash(p.Netdev), number(n.Node), dash(n.PCI), used)
		}
		if len(n.Ports) == 0 {
			t.row(n.Name, "-", "-", "-", "-", "-", number(n.Node), dash(n.PCI), used)
		}
	}
	t.end()
}

func nets(t *tables, m topology.Machine) {
	if len(m.Nets) == 0 {
		return
	}
	t.row("INTERFACE", "STATE", "SPEED", "NODE", "PCI", "NIC")
	for _, n := range m.Nets {
		t.row(n.Name, dash(n.State), rate(n.Speed), number(n.Node), dash(n.PCI), dash(n.NIC))
	}
	t.end()
}

func gpus(t *tables, m topology.Machine) {
	if len(m.GPUs) == 0 {
		return
	}
	t.row("GPU", "MODEL", "NODE", "PCI")
	for _, g := range m.GPUs {
		t.row(g.Name, g.Model, number(g.Node), g.PCI)
	}
	t.end()
}

func links(t *tables, m topology.Machine) {
	if len(m.GPUs) == 0 || len(m.NICs) == 0 {
		return
	}
	head := []string{"LINK"}
	for _, n := range m.NICs {
		head = append(head, n.Name)
	}
	t.row(head...)
	for _, g := range m.GPUs {
		cells := []string{g.Name}
		for _, n := range m.NICs {
			cells = append(cells, m.Link(g.Device, n.Device).String())
		}
		t.row(cells...)
	}
	t.end()
}

func entries(t *tables, c topology.Choice) {
	t.row("LOCATION", "PREFERRED", "AVAILABLE")
	for _, location := range c.Matrix.Locations() {
		e, _ := c.Matrix.Entry(location)
		t.row(location, dash(strings.Join(e.Preferred, ",")), dash(strings.Join(e.Available, ",")))
	}
	if len(c.Devices) > 0 {
		t.row("*", strings.Join(c.Devices, ","), "-")
	}
	t.end()
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func number(node int) string {
	if node < 0 {
		return "-"
	}
	return fmt.Sprint(node)
}

// rate writes bits per second.
func rate(bits uint64) string {
	if bits == 0 {
		return "-"
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(bits)/1e9), ".0") + " Gb/s"
}

// memory writes bytes.
func memory(bytes uint64) string {
	if bytes == 0 {
		return "-"
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(bytes)/(1<<30)), ".0") + " GiB"
}

package topology

import (
	"path"
	"slices"
	"strings"
)

// isPCI reports whether a word is the address of a PCI function: "0000:18:00.0".
func isPCI(s string) bool {
	domain, rest, ok := strings.Cut(s, ":")
	// A domain has more digits behind some controllers.
	return ok && len(domain) >= 4 && len(domain) <= 8 && hex(domain) && len(rest) == 7 &&
		hex(rest[:2]) && rest[2] == ':' && hex(rest[3:5]) && rest[5] == '.' && rest[6] >= '0' && rest[6] <= '7'
}

// isRoot reports whether a word is the folder of a PCI host bridge: "pci0000:15".
func isRoot(s string) bool {
	digits, ok := strings.CutPrefix(s, "pci")
	return ok && isPCI(digits+":00.0")
}

func hex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }

// lastPCI returns the part of a real path that ends with its innermost PCI function, empty
// for none.
func lastPCI(dir string) string {
	for ; dir != "." && dir != "/"; dir = path.Dir(dir) {
		if isPCI(path.Base(dir)) {
			return dir
		}
	}
	return ""
}

// Way returns the host bridge, the bridges and the function that lead to a device on the PCI
// bus, nil for another. The caller owns the slice.
func (d Device) Way() []string {
	parts := strings.Split(d.Path, "/")
	at := slices.IndexFunc(parts, isRoot)
	if d.PCI == "" || at < 0 {
		return nil
	}
	return slices.Clip(parts[at:])
}

// apart returns how many components the PCI paths of two devices share, and how many each
// has besides; false if one is not on the PCI bus.
func apart(a, b Device) (shared, restA, restB int, ok bool) {
	pa, pb := a.Way(), b.Way()
	if pa == nil || pb == nil {
		return 0, 0, 0, false
	}
	for shared < len(pa) && shared < len(pb) && pa[shared] == pb[shared] {
		shared++
	}
	return shared, len(pa) - shared, len(pb) - shared, true
}

// Distance is the number of steps between two devices in the PCI tree: the components in
// which their paths differ, without the first. False if one is not on the PCI bus.
func Distance(a, b Device) (int, bool) {
	_, restA, restB, ok := apart(a, b)
	return max(0, restA-1) + max(0, restB-1), ok
}

// Link says what lies between two devices, nearest first, in the words of nvidia-smi topo.
type Link int

// The links.
const (
	LinkSame Link = iota // the same device
	LinkPIX              // at most one PCIe switch
	LinkPXB              // several PCIe switches
	LinkPHB              // the PCIe host bridge
	LinkNODE             // several host bridges of one NUMA node
	LinkSYS              // the interconnect between NUMA nodes, or it is not known
)

// String returns X, PIX, PXB, PHB, NODE or SYS.
func (l Link) String() string { return [...]string{"X", "PIX", "PXB", "PHB", "NODE", "SYS"}[l] }

// MarshalText implements encoding.TextMarshaler.
func (l Link) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// Link returns what lies between two devices of the machine.
func (m Machine) Link(a, b Device) Link {
	shared, restA, restB, ok := apart(a, b)
	switch {
	case a.Path == b.Path:
		return LinkSame
	case ok && shared > 1 && max(restA, restB) <= 2: // the downstream port of the switch, and the device
		return LinkPIX
	case ok && shared > 1:
		return LinkPXB
	case ok && shared == 1:
		return LinkPHB
	case len(m.Nodes) <= 1 || a.Node >= 0 && a.Node == b.Node:
		return LinkNODE
	default:
		return LinkSYS
	}
}

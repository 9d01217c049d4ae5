package topology

import "fmt"

// Machine is what a machine has, each kind in the order of its names.
type Machine struct {
	Nodes []Node `json:"nodes"`
	NICs  []NIC  `json:"nics"`
	Nets  []Net  `json:"nets"`
	GPUs  []GPU  `json:"gpus"`
	// Warnings say what of the machine could not be read or made no sense.
	Warnings []string `json:"warnings,omitempty"`
}

// NoNode is the NUMA node of what is near to none, or of which the firmware does not tell.
const NoNode = -1

// Node is one NUMA node.
type Node struct {
	ID int `json:"id"`
	// CPUs is the kernel's list, such as "0-31,64-95"; empty for a node without.
	CPUs string `json:"cpus"`
	// Memory is in bytes, 0 where unknown.
	Memory uint64 `json:"memory"`
	// Distances are the relative costs of memory of each node in the order of the nodes, 10
	// for the node's own; empty where unknown.
	Distances []int `json:"distances,omitempty"`
}

// Location is how transports name memory of the node.
func (n Node) Location() string { return fmt.Sprintf("cpu:%d", n.ID) }

// Device is what devices have in common.
type Device struct {
	Name string `json:"name"`
	// PCI is the address on the PCI bus, "0000:18:00.0"; empty for a device elsewhere.
	PCI string `json:"pci,omitempty"`
	// Path is the device's folder below the root, without links: its parents are the
	// bridges that lead to it.
	Path string `json:"path"`
	// Node is the NUMA node, NoNode where that is not known.
	Node int `json:"numa_node"`
}

// NIC is an RDMA device.
type NIC struct {
	Device
	Ports []Port `json:"ports"`
	// File says that its device file is there for programs to open.
	File bool `json:"file"`
}

// Port is a port of an RDMA device.
type Port struct {
	Number int `json:"number"`
	// State is the kernel's word: ACTIVE, DOWN, INIT, ARMED, ACTIVE_DEFER.
	State string `json:"state"`
	// LinkLayer is InfiniBand or Ethernet.
	LinkLayer string `json:"link_layer"`
	// Rate is the speed in bits per second, 0 where unknown.
	Rate uint64 `json:"rate"`
	// Netdev is its network interface, empty where unknown.
	Netdev string `json:"netdev,omitempty"`
	// Address says that it has an address (GID) at which peers could reach it.
	Address bool `json:"address"`
}

// Active reports whether the port carries traffic and peers could reach it.
func (p Port) Active() bool { return p.State == "ACTIVE" && p.Address }

// Usable reports whether a program can transfer with the device, and why not.
func (n NIC) Usable() (ok bool, why string) {
	if !n.File {
		return false, "its device file /dev/infiniband/uverbs* is missing"
	}
	why = "it has no port"
	for i, p := range n.Ports {
		switch {
		case p.Active():
			return true, ""
		case i > 0:
		case p.State == "ACTIVE":
			why = fmt.Sprintf("port %d has no address (GID)", p.Number)
		case p.State == "":
			why = fmt.Sprintf("the state of port %d cannot be read", p.Number)
		default:
			why = fmt.Sprintf("port %d is %s", p.Number, p.State)
		}
	}
	return false, why
}

// Rate is the speed of the fastest active port in bits per second, 0 for none.
func (n NIC) Rate() uint64 {
	best := uint64(0)
	for _, p := range n.Ports {
		if p.Active() {
			best = max(best, p.Rate)
		}
	}
	return best
}

// Net is a network interface of a device; virtual ones are not listed.
type Net struct {
	Device
	// State is the kernel's word: up, down, unknown.
	State string `json:"state"`
	// Speed is in bits per second, 0 where unknown.
	Speed uint64 `json:"speed"`
	// NIC is the RDMA device on the same port, empty for none.
	NIC string `json:"nic,omitempty"`
}

// GPU is a GPU or another accelerator. Its Name is its location, "cuda:0": the number
// counts the vendor's devices in the order of their PCI addresses.
type GPU struct {
	Device
	// Model is vendor and device as the PCI registry has them, "10de:2330".
	Model string `json:"model"`
}

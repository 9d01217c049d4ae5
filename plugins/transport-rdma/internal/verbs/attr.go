package verbs

import "net/netip"

// NodeType is what kind of device it is.
type NodeType int32

// The node types of devices that may be used here.
const (
	NodeCA    NodeType = 1
	NodeRNIC  NodeType = 4
	NodeOther NodeType = -1
)

// DeviceInfo describes a device without opening it.
type DeviceInfo struct {
	// Name is the kernel's: "mlx5_0". UverbsPath is the file that Open needs to read and write:
	// "/dev/infiniband/uverbs0". SysfsPath is its folder: "/sys/class/infiniband/mlx5_0".
	Name, UverbsPath, SysfsPath string
	Node                        NodeType
	// IWARP says that the device speaks iWARP, which needs the RDMA CM to connect.
	IWARP bool
	// GUID is the node's number.
	GUID uint64
}

// DeviceAttr holds what a device can do. The limits are those of the device for all processes.
type DeviceAttr struct {
	Firmware             string
	NodeGUID             uint64
	VendorID, VendorPart uint32
	HardwareVersion      uint32
	MaxMRSize            uint64 // bytes
	PageSizes            uint64 // one bit for each size
	MaxQP, MaxQPWR       int
	MaxSGE               int
	MaxCQ, MaxCQE        int
	MaxMR, MaxPD         int
	MaxReadsIn           int // reads and atomics of peers in flight on a QP (max_qp_rd_atom)
	MaxReadsOut          int // the same of this side (max_qp_init_rd_atom)
	Ports                int
	CompletionVectors    int
}

// PortState is the logical state of a port.
type PortState uint32

// The states.
const (
	PortDown   PortState = 1
	PortInit   PortState = 2
	PortArmed  PortState = 3
	PortActive PortState = 4
)

// LinkLayer is what a port is made of.
type LinkLayer uint8

// The link layers.
const (
	LinkUnspecified LinkLayer = 0
	LinkInfiniBand  LinkLayer = 1
	LinkEthernet    LinkLayer = 2
)

// String names the link layer.
func (l LinkLayer) String() string {
	switch l {
	case LinkInfiniBand:
		return "InfiniBand"
	case LinkEthernet:
		return "Ethernet"
	}
	return "unspecified"
}

// PortAttr describes a port as it is now.
type PortAttr struct {
	State PortState
	// MaxMTU and ActiveMTU are the RDMA payload of a packet in bytes: 256 to 4096.
	MaxMTU, ActiveMTU int
	LID, SMLID        uint16
	LinkLayer         LinkLayer
	// GIDs is the length of the GID table, MaxMessage the longest work request in bytes.
	GIDs       int
	PKeys      int
	MaxMessage uint32
	// Speed is the nominal speed of all lanes in bits per second, 0 for unknown.
	Speed uint64
}

// GIDType is the protocol an address stands for.
type GIDType uint32

// The types.
const (
	GIDIB     GIDType = 0
	GIDRoCEv1 GIDType = 1
	GIDRoCEv2 GIDType = 2
)

// String names the type as the kernel does.
func (t GIDType) String() string {
	switch t {
	case GIDIB:
		return "IB"
	case GIDRoCEv1:
		return "RoCE v1"
	case GIDRoCEv2:
		return "RoCE v2"
	}
	return "unknown"
}

// GID is one entry of the table of addresses of a port.
type GID struct {
	// Addr is the address: an IPv6 address, or IPv4 mapped into one.
	Addr  [16]byte
	Index int
	Type  GIDType
	// NetIndex is the index of the network interface behind it, 0 for none.
	NetIndex int
}

// IP returns the address, unmapped where it stands for IPv4.
func (g GID) IP() netip.Addr { return netip.AddrFrom16(g.Addr).Unmap() }

// Zero reports whether the entry is empty: no address, or the link-local prefix alone.
func (g GID) Zero() bool { return g.Addr == [16]byte{} || g.Addr == [16]byte{0: 0xfe, 1: 0x80} }

// mtuBytes turns the enumeration of the library into bytes, 0 for none of it.
func mtuBytes(e uint32) int {
	if e < 1 || e > 5 {
		return 0
	}
	return 128 << e
}

// mtuEnum is the inverse: the largest MTU that is at most n, 0 for less than 256.
func mtuEnum(n int) uint32 {
	for e := uint32(5); e > 0; e-- {
		if n >= 128<<e {
			return e
		}
	}
	return 0
}

// portSpeed multiplies the number of lanes by the nominal speed of one, both in the bits of the
// library. The result is in bits per second.
func portSpeed(width, speed uint32) uint64 {
	var lanes, mega uint64
	switch width {
	case 1:
		lanes = 1
	case 2:
		lanes = 4
	case 4:
		lanes = 8
	case 8:
		lanes = 12
	case 16:
		lanes = 2
	}
	switch speed {
	case 1: // SDR
		mega = 2_500
	case 2: // DDR
		mega = 5_000
	case 4, 8: // QDR, FDR10
		mega = 10_000
	case 16: // FDR
		mega = 14_000
	case 32: // EDR
		mega = 25_000
	case 64: // HDR
		mega = 50_000
	case 128: // NDR
		mega = 100_000
	case 256: // XDR
		mega = 200_000
	}
	return lanes * mega * 1_000_000
}

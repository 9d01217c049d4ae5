package verbs

import (
	"net"
	"strconv"
)

// DeviceInfo describes a device without opening it.
type DeviceInfo struct {
	// Name is the kernel's: "mlx5_0". UverbsPath is the file that Open needs to read and write:
	// "/dev/infiniband/uverbs0". SysfsPath is its folder: "/sys/class/infiniband/mlx5_0".
	Name, UverbsPath, SysfsPath string
	// IWARP says that the device speaks iWARP, which needs the RDMA CM to connect.
	IWARP bool
}

// DeviceAttr holds what a device can do. The limits are those of the device for all processes.
type DeviceAttr struct {
	MaxMRSize         uint64 // bytes
	MaxQP, MaxQPWR    int
	MaxCQE, MaxMR     int
	MaxReadsIn        int // reads and atomics of peers in flight on a QP (max_qp_rd_atom)
	MaxReadsOut       int // the same of this side (max_qp_init_rd_atom)
	Ports             int
	CompletionVectors int
}

// PortAttr describes a port as it is now.
type PortAttr struct {
	Active bool
	// ActiveMTU is the RDMA payload of a packet in bytes: 256 to 4096.
	ActiveMTU int
	LID       uint16
	// GIDs is the length of the GID table, MaxMessage the longest work request in bytes.
	GIDs       int
	MaxMessage uint32
	// Speed is the nominal speed of all lanes in bits per second, 0 for unknown.
	Speed uint64
}

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
	lanes := map[uint32]uint64{1: 1, 2: 4, 4: 8, 8: 12, 16: 2}[width]
	mega := map[uint32]uint64{ // SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR, XDR
		1: 2_500, 2: 5_000, 4: 10_000, 8: 10_000, 16: 14_000, 32: 25_000, 64: 50_000, 128: 100_000, 256: 200_000,
	}[speed]
	return lanes * mega * 1_000_000
}

// netdev returns the name of the network interface with an index, or makes one up for an interface
// that this process does not see. It is empty for index 0, which means none.
func netdev(index int) string {
	if index == 0 {
		return ""
	}
	if i, err := net.InterfaceByIndex(index); err == nil {
		return i.Name
	}
	return "if" + strconv.Itoa(index)
}

// Access is what may be done with registered memory, or through a QP.
type Access uint32

// The rights, to be combined.
const (
	AccessLocalWrite  Access = 1 << 0
	AccessRemoteWrite Access = 1 << 1
	AccessRemoteRead  Access = 1 << 2
	// AccessRelaxedOrdering lets the device's writes pass each other on the bus. It is dropped
	// silently where the library does not know it.
	AccessRelaxedOrdering Access = 1 << 20
)

// QPState is the state of a QP.
type QPState uint32

// The states.
const (
	QPReset QPState = 0
	QPInit  QPState = 1
	QPRTR   QPState = 2
	QPRTS   QPState = 3
	QPErr   QPState = 6
)

// String names the state.
func (s QPState) String() string {
	if s > QPErr {
		return "unknown"
	}
	return [...]string{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"}[s]
}

// QPConfig is what a QP is made with.
type QPConfig struct {
	// Depth is how many work requests may be in flight, from 1 to MaxQPWR-1 of the device. The
	// CQ must have this many entries left, plus one.
	Depth int
	// MaxInline is the size up to which writes are copied when they are posted. The device may
	// allow less; then less is used.
	MaxInline int
	// SignalEvery is how many requests share a completion, 0 for a choice by Depth.
	SignalEvery int
	// Tag comes back in results and events.
	Tag uint64
}

// InitAttr moves a QP from RESET to INIT.
type InitAttr struct {
	Port      int
	PKeyIndex int
	// Access is what the peer may do.
	Access Access
}

// RTRAttr moves a QP from INIT to RTR: ready to receive.
type RTRAttr struct {
	// MTU is the size of a packet's payload in bytes, equal on both sides: 256 to 4096.
	MTU int
	// PeerQP, PeerGID, PeerLID, PeerPSN are the peer's.
	PeerQP  uint32
	PeerGID [16]byte
	PeerLID uint16
	PeerPSN uint32
	// Port and GIDIndex are this side's.
	Port, GIDIndex int
	HopLimit       uint8
	TrafficClass   uint8
	ServiceLevel   uint8
	// ReadsIn is how many reads of the peer may be in flight.
	ReadsIn uint8
	// MinRNRTimer is the library's code of a delay: 12 is 0.64 ms.
	MinRNRTimer uint8
}

// RTSAttr moves a QP from RTR to RTS: ready to send.
type RTSAttr struct {
	// PSN is this side's.
	PSN uint32
	// Timeout of an acknowledgement: 4.096 us times two to this power, 0 for none, at most 31.
	Timeout uint8
	// RetryCount and RNRRetry are at most 7; for RNRRetry 7 means without end.
	RetryCount, RNRRetry uint8
	// ReadsOut is how many reads of this side may be in flight.
	ReadsOut uint8
}

// QPInfo is what the kernel says about a QP.
type QPInfo struct {
	State      QPState
	MTU, Depth int
	PeerQP     uint32
	Retry      uint8
}

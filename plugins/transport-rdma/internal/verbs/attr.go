package verbs

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

package verbs

// OpCode is the direction of a work request.
type OpCode uint8

// The directions.
const (
	// OpWrite copies local memory into the peer's.
	OpWrite OpCode = 1
	// OpRead copies the peer's memory into local memory.
	OpRead OpCode = 2
)

// WRFlag changes how one work request is executed.
type WRFlag uint8

// The flags, to be combined.
const (
	// WRSignal asks for a completion of its own, for a request that is waited for: its result
	// and those before it arrive as early as possible. The last of every Post has one anyway.
	WRSignal WRFlag = 1 << 0
	// WRFence starts the request after all reads before it on the QP have ended.
	WRFence WRFlag = 1 << 1
	// WRNoInline keeps the request from being copied at Post.
	WRNoInline WRFlag = 1 << 2
)

// WR is one work request: Len bytes between Local and Remote. The ranges lie inside registered
// memory, and stay so until the Result.
type WR struct {
	// ID comes back in the Result; any value.
	ID uint64
	// Local and Remote are addresses, LKey and RKey the keys of the MRs they are in.
	Local, Remote uint64
	LKey, RKey    uint32
	// Len is the number of bytes, at most the port's MaxMessage.
	Len   uint32
	Op    OpCode
	Flags WRFlag
	_     [2]byte
}

// Result is the end of one work request.
type Result struct {
	// ID is that of the WR.
	ID uint64
	// Tag is that of the QP's QPConfig.
	Tag uint64
	// QP is the number of the QP.
	QP uint32
	// Status is 0 for success.
	Status Status
	// VendorErr is the device's own code of an error.
	VendorErr uint32
	// Len is the number of bytes moved: the WR's for success, else 0.
	Len uint32
}

package verbs

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

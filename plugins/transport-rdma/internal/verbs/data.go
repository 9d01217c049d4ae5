package verbs

import "strconv"

// OpCode is the direction of a work request.
type OpCode uint8

// The directions.
const (
	// OpWrite copies local memory into the peer's.
	OpWrite OpCode = 1
	// OpRead copies the peer's memory into local memory.
	OpRead OpCode = 2
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
	Len uint32
	Op  OpCode
	// NoInline keeps the request from being copied at Post.
	NoInline bool
	_        [2]byte
}

// Result is the end of one work request.
type Result struct {
	// ID is that of the WR, Tag that of the QP's QPConfig, QP the number of the QP.
	ID, Tag uint64
	QP      uint32
	Status  Status
	// VendorErr is the device's own code of an error.
	VendorErr uint32
	// Len is the number of bytes moved: the WR's for success, else 0.
	Len uint32
}

// Status is how a work request ended: 0 is success. The values are those of the library, but
// for StatusClosed.
type Status uint32

// The statuses that callers tell apart. Others exist; see String.
const (
	StatusSuccess          Status = 0
	StatusLocalLength      Status = 1
	StatusLocalQPOperation Status = 2
	StatusLocalProtection  Status = 4
	// StatusFlushed: the QP failed before this request was executed, or was moved to the error
	// state. It is unknown which of the bytes moved.
	StatusFlushed         Status = 5
	StatusMWBind          Status = 6
	StatusBadResponse     Status = 7
	StatusLocalAccess     Status = 8
	StatusRemoteInvalid   Status = 9
	StatusRemoteAccess    Status = 10
	StatusRemoteOperation Status = 11
	// StatusRetryExceeded: the peer did not answer.
	StatusRetryExceeded    Status = 12
	StatusRNRRetryExceeded Status = 13
	StatusFatal            Status = 19
	StatusResponseTimeout  Status = 20
	StatusGeneral          Status = 21
	// StatusClosed: the QP was closed before the request ended. The device no longer touches
	// the memory of this side.
	StatusClosed Status = 256
)

var statusNames = [...]string{
	"success", "local length error", "local QP operation error", "local EE context operation error",
	"local protection error", "flushed", "memory window bind error", "bad response",
	"local access error", "remote invalid request", "remote access error", "remote operation error",
	"transport retries exceeded", "receiver-not-ready retries exceeded", "local RDD violation",
	"remote invalid RD request", "remote aborted", "invalid EE context number",
	"invalid EE context state", "fatal error", "response timeout", "general error",
	"tag matching error", "tag matching rendezvous incomplete",
}

// String names the status.
func (s Status) String() string {
	if s == StatusClosed {
		return "QP closed"
	}
	return nameOf(statusNames[:], s, "status ")
}

// nameOf returns the entry of a table, or the number after a prefix where there is none.
func nameOf[T ~uint32](names []string, v T, prefix string) string {
	if int(v) < len(names) {
		return names[v]
	}
	return prefix + strconv.Itoa(int(v))
}

// Flushed reports whether the request ended because of what happened to the QP, not to
// itself.
func (s Status) Flushed() bool { return s == StatusFlushed || s == StatusClosed }

// Local reports whether the fault lies with this side's memory or QP, so that another device
// of this side may do better.
func (s Status) Local() bool {
	switch s {
	case StatusLocalLength, StatusLocalQPOperation, StatusLocalProtection, StatusLocalAccess, StatusMWBind:
		return true
	}
	return false
}

// EventType is what happened to a device.
type EventType uint32

// The events that callers tell apart; the values are the library's.
const (
	EventCQError     EventType = 0
	EventQPFatal     EventType = 1
	EventQPRequest   EventType = 2
	EventQPAccess    EventType = 3
	EventDeviceFatal EventType = 8
	EventPortActive  EventType = 9
	EventPortError   EventType = 10
	EventLIDChange   EventType = 11
	EventPKeyChange  EventType = 12
	EventSMChange    EventType = 13
	EventClientRereg EventType = 17
	EventGIDChange   EventType = 18
	EventWQFatal     EventType = 19
)

var eventNames = [...]string{
	"CQ error", "QP fatal", "QP request error", "QP access error", "communication established",
	"send queue drained", "path migrated", "path migration error", "device fatal", "port active",
	"port error", "LID change", "PKEY change", "SM change", "SRQ error", "SRQ limit reached",
	"last WQE reached", "client reregister", "GID change", "WQ fatal",
}

// String names the event.
func (t EventType) String() string { return nameOf(eventNames[:], t, "event ") }

// Event is an asynchronous event of a device. It has been acknowledged already.
type Event struct {
	Type EventType
	// Port is set for events of a port, else 0.
	Port int
	// QP and Tag name the QP for events of one, else 0.
	QP  uint32
	Tag uint64
}

package verbs

import "strconv"

// EventType is what happened to a device.
type EventType uint32

// The events; the values are the library's.
const (
	EventCQError      EventType = 0
	EventQPFatal      EventType = 1
	EventQPRequest    EventType = 2
	EventQPAccess     EventType = 3
	EventCommEstd     EventType = 4
	EventSQDrained    EventType = 5
	EventPathMigrated EventType = 6
	EventPathMigError EventType = 7
	EventDeviceFatal  EventType = 8
	EventPortActive   EventType = 9
	EventPortError    EventType = 10
	EventLIDChange    EventType = 11
	EventPKeyChange   EventType = 12
	EventSMChange     EventType = 13
	EventSRQError     EventType = 14
	EventSRQLimit     EventType = 15
	EventQPLastWQE    EventType = 16
	EventClientRereg  EventType = 17
	EventGIDChange    EventType = 18
	EventWQFatal      EventType = 19
	eventCount                  = 20
)

var eventNames = [eventCount]string{
	"CQ error", "QP fatal", "QP request error", "QP access error", "communication established",
	"send queue drained", "path migrated", "path migration error", "device fatal", "port active",
	"port error", "LID change", "PKEY change", "SM change", "SRQ error", "SRQ limit reached",
	"last WQE reached", "client reregister", "GID change", "WQ fatal",
}

// String names the event.
func (t EventType) String() string {
	if t < eventCount {
		return eventNames[t]
	}
	return "event " + strconv.Itoa(int(t))
}

// Event is an asynchronous event of a device. It has been acknowledged already.
type Event struct {
	Type EventType
	// Port is set for events of a port, else 0.
	Port int
	// QP and Tag name the QP for events of one, else 0.
	QP  uint32
	Tag uint64
}

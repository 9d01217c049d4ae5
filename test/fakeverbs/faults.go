package fakeverbs

import (
	"sync/atomic"
	"syscall"
)

// Rule counts what a FailCall or Fault did.
type Rule struct{ armed, hits *uint32 }

// Hits returns how often it took effect.
func (r *Rule) Hits() int { return int(atomic.LoadUint32(r.hits)) }

// Cancel ends it. Repeatable.
func (r *Rule) Cancel() { atomic.StoreUint32(r.armed, 0) }

// FailCall makes calls of a function fail with an errno: the first skip calls from now on pass, the
// next times fail. See funcs for the names; device -1 is any. A world takes 64 of them in all.
func (w *World) FailCall(name string, device, skip, times int, errno syscall.Errno) *Rule {
	w.t.Helper()
	if i := int(w.rules.Add(1)) - 1; i < maxRules {
		r := &w.s.rules[i]
		r.fn, r.device, r.skip, r.times, r.errno = funcIndex(w.t, name), int32(device), uint32(skip), uint32(times), int32(errno)
		atomic.StoreUint32(&r.armed, 1)
		atomic.AddUint32(&w.s.nrules, 1)
		return &Rule{&r.armed, &r.hits}
	}
	w.t.Fatalf("fakeverbs: more than %d rules", maxRules)
	return nil
}

// Action is what a fault does.
type Action uint32

// The actions. Those about completions do nothing to a success that is not signalled.
const (
	// Status ends the request with an error before anything is moved.
	Status Action = 1
	// Drop loses the completion.
	Drop Action = 2
	// Delay holds the QP up for MS milliseconds.
	Delay Action = 3
	// Duplicate delivers the completion twice.
	Duplicate Action = 4
	// Reorder delivers the completion after the next one of its CQ.
	Reorder Action = 5
	// Garble delivers a completion with another wr_id: with the bits of Offset changed, or many for 0.
	Garble Action = 6
	// FlipByte changes the byte at Offset of what arrived.
	FlipByte Action = 7
	// Stall holds the QP up until Release.
	Stall Action = 8
	// Half moves half of the bytes or more, then ends the request with Status.
	Half Action = 9
)

// Fault is something that happens to work requests.
type Fault struct {
	Action Action
	// Device, QP and Op choose requests: -1, 0 and 0 for any. Op 1 is write, 2 is read.
	Device int
	QP     uint32
	Op     int
	// Skip requests that match pass first; then it happens to Times of them, 0 for one.
	Skip, Times int
	// WC is the status of Status and Half, as the library numbers it.
	WC int
	// MS belongs to Delay, Offset to FlipByte and Garble.
	MS     int
	Offset uint64
}

// Fault arms a fault. Faults that match are taken in the order of arming, one for each request,
// when its execution starts. A world takes 64 of them in all.
func (w *World) Fault(f Fault) *Rule {
	w.t.Helper()
	if i := int(w.faults.Add(1)) - 1; i < maxFaults {
		s := &w.s.faults[i]
		s.action, s.device, s.qpn, s.opcode = uint32(f.Action), int32(f.Device), f.QP, uint32(f.Op)
		s.skip, s.times, s.status, s.ms, s.offset = uint32(f.Skip), uint32(max(1, f.Times)), uint32(f.WC), uint32(f.MS), f.Offset
		atomic.StoreUint32(&s.armed, 1)
		atomic.AddUint32(&w.s.nfaults, 1)
		return &Rule{&s.armed, &s.hits}
	}
	w.t.Fatalf("fakeverbs: more than %d faults", maxFaults)
	return nil
}

// Release lets all stalled QPs go on.
func (w *World) Release() {
	atomic.AddUint32(&w.s.stallRelease, 1)
	w.kick()
}

// The asynchronous events of Event.
const (
	EventCQError     = 0
	EventQPFatal     = 1
	EventQPAccess    = 3
	EventDeviceFatal = 8
	EventPortActive  = 9
	EventPortError   = 10
	EventLIDChange   = 11
	EventGIDChange   = 18
)

// Event delivers an asynchronous event to every process that has the device open. qp is the number
// of a QP for events of one, which only its owner gets, else 0. EventQPFatal ends the QP too.
func (w *World) Event(device, event int, qp uint32) {
	n := atomic.LoadUint32(&w.s.eventsWritten)
	w.s.events[n%maxEvents] = eventOf(device, event, qp)
	atomic.StoreUint32(&w.s.eventsWritten, n+1)
	w.kick()
}

func eventOf(device, typ int, qp uint32) event {
	return event{device: uint32(device), typ: uint32(typ), port: 1, qpn: qp}
}

// SetPort takes the port of a device down or up, with the event for it. Requests over a port that
// is down fail with retries exceeded, after Device.RetryMS.
func (w *World) SetPort(device int, up bool) {
	state, ev := uint32(1), EventPortError
	if up {
		state, ev = 4, EventPortActive
	}
	atomic.StoreUint32(&w.s.device[device].State, state)
	w.Event(device, ev, 0)
}

// SetGID replaces an entry of the table of a device, with the event for it.
func (w *World) SetGID(device, index int, g GID) {
	w.s.device[device].GIDs[index] = g
	w.Event(device, EventGIDChange, 0)
}

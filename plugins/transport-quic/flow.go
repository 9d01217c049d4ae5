package quic

import "time"

// flow bounds the requests and bytes in flight on one connection, so that a connection that is
// slowed down by losses does not hold what others could carry: as much as keeps it busy for a few
// round trips. The zero value is ready.
type flow struct {
	requests int
	bytes    int64
	limit    int64     // of bytes; 0 for flowStart
	cutAt    time.Time // when limit was last lowered
}

const (
	flowStart = 512 << 10
	flowLeast = 256 << 10
	flowMost  = 64 << 20
	// A chunk should take at most so many round trips, and need not take less than flowTime.
	flowTrips = 8
	flowTime  = 50 * time.Millisecond
)

func (f *flow) most() int64 {
	if f.limit == 0 {
		return flowStart
	}
	return f.limit
}

// free is how many bytes more may be begun.
func (f *flow) free() int64 { return f.most() - f.bytes }

// fits reports whether a chunk of size bytes may be begun where streams may be open.
func (f *flow) fits(size, streams int) bool {
	return f.requests < streams && (f.requests == 0 || f.bytes+int64(size) <= f.most())
}

func (f *flow) began(size int) {
	f.requests++
	f.bytes += int64(size)
}

// slow reports whether less in flight than at first is enough to keep the connection busy.
func (f *flow) slow() bool { return f.limit > 0 && f.limit < flowStart }

// ended notes a chunk that took so long from begin to end, 0 for one that failed. rtt is
// the least round trip of the connection.
func (f *flow) ended(size int, took, rtt time.Duration, now time.Time) {
	full := f.bytes+int64(size) > f.most()
	f.requests--
	f.bytes -= int64(size)
	if took == 0 {
		return
	}
	aim := max(flowTrips*rtt, flowTime)
	switch {
	case took > aim && now.Sub(f.cutAt) > aim:
		f.limit, f.cutAt = max(f.most()*3/4, flowLeast), now
	case took < aim/2 && full:
		f.limit = min(f.most()+int64(size), flowMost)
	}
}

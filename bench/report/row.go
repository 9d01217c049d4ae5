package report

// Unit says what a value counts, and which direction is good.
type Unit struct {
	Name string
	// Less is true where a smaller value is better: times, memory.
	Less bool
}

// The units of the works.
var (
	GBps       = Unit{Name: "GB/s"}
	KeysPerSec = Unit{Name: "keys/s"}
	Micros     = Unit{Name: "us", Less: true}
	Millis     = Unit{Name: "ms", Less: true}
	Nanos      = Unit{Name: "ns", Less: true}
	Megabytes  = Unit{Name: "MB", Less: true}
	BytesAKey  = Unit{Name: "bytes/key", Less: true}
	Share      = Unit{Name: "share"}
)

// Row is one comparison. Its JSON has exactly these names. Ours, Peer and Ratio are null where
// they are not known; the name of the peer then says why.
type Row struct {
	Work string `json:"work"`
	// Ours and Peer are medians of the rounds.
	Ours     *float64 `json:"ours"`
	Peer     *float64 `json:"peer"`
	PeerName string   `json:"peer_name"`
	// Ratio is how many times better ours is: ours by the peer's where more is better, the
	// peer's by ours where less is better. Above 1 ours is ahead.
	Ratio *float64 `json:"ratio"`
	// Goal is the least ratio that is wanted, null for none.
	Goal *float64 `json:"goal"`
	Unit string   `json:"unit"`
}

// missing marks the name of a contender that has no figure.
const missing = ": MISSING: "

// Compare makes a row. A goal of 0 is none.
func Compare(work string, unit Unit, ours, peer Figure, goal float64) Row {
	r := Row{Work: work, PeerName: peer.Name, Unit: unit.Name}
	if goal > 0 {
		r.Goal = &goal
	}
	a, haveOurs := ours.Median()
	b, havePeer := peer.Median()
	if havePeer {
		r.Peer = &b
	} else {
		r.PeerName += missing + peer.reason()
	}
	if haveOurs {
		r.Ours = &a
	} else {
		r.PeerName += "; ours" + missing + ours.reason()
	}
	if haveOurs && havePeer {
		r.Ratio = ratio(unit, a, b)
	}
	return r
}

// ratio is nil where one of the values is not above 0: it would mean nothing.
func ratio(unit Unit, ours, peer float64) *float64 {
	if !(ours > 0) || !(peer > 0) {
		return nil
	}
	r := ours / peer
	if unit.Less {
		r = peer / ours
	}
	return &r
}

// Missed reports whether the row has a goal that it does not reach, or has no ratio to tell.
func (r Row) Missed() bool {
	return r.Goal != nil && (r.Ratio == nil || *r.Ratio < *r.Goal)
}

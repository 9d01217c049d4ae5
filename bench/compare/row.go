package compare

import (
	"cmp"

	"github.com/mooncake-go/mooncake/core/bench/measure"
)

// Figure is what one contender of a comparison reached.
type Figure struct {
	// Name says whose it is, for example "redis-server 7.0.15".
	Name string
	// Rounds are the measured values, one a round, in any order.
	Rounds []float64
	// Missing is why there are none, empty where there are some.
	Missing string
}

// Fixed is a figure that is not measured here: a limit that was set, or a value that was measured
// elsewhere. Its name has to say so.
func Fixed(name string, value float64) Figure {
	return Figure{Name: name, Rounds: []float64{value}}
}

// Absent is the figure of a contender that could not be measured.
func Absent(name, reason string) Figure {
	return Figure{Name: name, Missing: reason}
}

// Median returns the middle of the rounds, and false where there are none.
func (f Figure) Median() (float64, bool) {
	if f.Missing != "" || len(f.Rounds) == 0 {
		return 0, false
	}
	return measure.Median(f.Rounds), true
}

// Unit says what a value counts, and which direction is good.
type Unit struct {
	Name string
	// Less is true where a smaller value is better: times, memory.
	Less bool
}

// The units of the workloads.
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

// The units of processor time.
var (
	CPUPerGB   = Unit{Name: "CPU s/GB", Less: true}
	CPUPerCall = Unit{Name: "CPU us/call", Less: true}
	CPUMillis  = Unit{Name: "CPU ms", Less: true}
)

// Row is one comparison. Its JSON has exactly these names. Ours, Peer and Ratio are null where
// they are not known; the name of the competitor then says why. What begins with CPU is the same for
// the processor time of all processes of a side together, null where it means nothing for the work or is not known.
type Row struct {
	Work string `json:"work"`
	// Ours and Peer are medians of the rounds.
	Ours     *float64 `json:"ours"`
	Peer     *float64 `json:"peer"`
	PeerName string   `json:"peer_name"`
	// Ratio is how many times better ours is: ours divided by the competitor's where more is
	// better, the competitor's divided by ours where less is better. Above 1 ours is ahead.
	Ratio *float64 `json:"ratio"`
	// Goal is the least ratio that is wanted, null for none.
	Goal *float64 `json:"goal"`
	Unit string   `json:"unit"`

	CPUOurs  *float64 `json:"cpu_ours"`
	CPUPeer  *float64 `json:"cpu_peer"`
	CPURatio *float64 `json:"cpu_ratio"`
	CPUGoal  *float64 `json:"cpu_goal"`
	CPUUnit  string   `json:"cpu_unit"`
}

// NewRow compares two figures. A goal of 0 is none.
func NewRow(work string, unit Unit, ours, peer Figure, goal float64) Row {
	const missing, unknown = ": MISSING: ", "it was not measured"
	r := Row{Work: work, PeerName: peer.Name, Unit: unit.Name}
	if goal > 0 {
		r.Goal = &goal
	}
	a, haveOurs := ours.Median()
	b, havePeer := peer.Median()
	if havePeer {
		r.Peer = &b
	} else {
		r.PeerName += missing + cmp.Or(peer.Missing, unknown)
	}
	if haveOurs {
		r.Ours = &a
	} else {
		r.PeerName += "; ours" + missing + cmp.Or(ours.Missing, unknown)
	}
	r.Ratio = unit.ratio(a, b)
	return r
}

// ratio is how many times better a is than b, nil where that would mean nothing.
func (u Unit) ratio(a, b float64) *float64 {
	if a <= 0 || b <= 0 {
		return nil
	}
	ratio := a / b
	if u.Less {
		ratio = b / a
	}
	return &ratio
}

// WithCPU returns the row with the processor time of both sides. A goal of 0 is none.
func (r Row) WithCPU(unit Unit, ours, peer Figure, goal float64) Row {
	a, haveOurs := ours.Median()
	b, havePeer := peer.Median()
	if haveOurs {
		r.CPUOurs = &a
	}
	if havePeer {
		r.CPUPeer = &b
	}
	if goal > 0 {
		r.CPUGoal = &goal
	}
	r.CPURatio, r.CPUUnit = unit.ratio(a, b), unit.Name
	return r
}

// Missed reports whether the row has a goal that it does not reach, or has no ratio to tell.
func (r Row) Missed() bool { return missed(r.Goal, r.Ratio) }

// MissedCPU is Missed for the processor time.
func (r Row) MissedCPU() bool { return missed(r.CPUGoal, r.CPURatio) }

func missed(goal, ratio *float64) bool {
	return goal != nil && (ratio == nil || *ratio < *goal)
}

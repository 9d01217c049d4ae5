package metrics

import "fmt"

// HASummary is the high-availability part of the log line for a master without it.
const HASummary = "HA Metrics Summary: last_seq=0, applied_seq=0, lag=0, pending=0, mutation_queue=0, batch_commits=0, sync_commits=0, " +
	"skipped=0, checksum_fail=0, etcd_fail=0, watch_disconn=0, state=0"

// Status is what the master is at the moment, in upstream's words.
type Status struct {
	// Role is leader or standby; State starting, standby, candidate, recovering,
	// catching_up, leader_warmup or serving.
	Role, State string
	// Ready is true while the master answers calls on objects.
	Ready bool
	// Leader is the address of the leader, empty where none is known or there is no high
	// availability; View the number of its leadership.
	Leader string
	View   uint64
}

// Serving is the status of a master without high availability.
func Serving() Status { return Status{Role: "leader", State: "serving", Ready: true} }

// Line wraps the master's summary into the line of /metrics/summary.
func (s Status) Line(summary string) string {
	line := fmt.Sprintf("role=%s, state=%s, service_ready=%t, master={%s}, ha={%s}", s.Role, s.State, s.Ready, summary, HASummary)
	if s.Leader != "" {
		line += fmt.Sprintf(", leader=%s, view_version=%d", s.Leader, s.View)
	}
	return line
}

// LogLine is the line that log scrapers look for.
func (s Status) LogLine(summary string) string { return "Master Admin Metrics: " + s.Line(summary) }

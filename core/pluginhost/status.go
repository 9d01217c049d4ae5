package pluginhost

import (
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/security"
)

// Instance is a plugin in use.
type Instance struct {
	Kind   string       `json:"kind" yaml:"kind"`
	Name   string       `json:"name" yaml:"name"`
	Home   string       `json:"home" yaml:"home"`
	State  plugin.State `json:"state" yaml:"state"`
	Reason string       `json:"reason,omitempty" yaml:"reason,omitempty"`
	// PID is the process that runs it, 0 for one in process or between two processes.
	PID int `json:"pid,omitempty" yaml:"pid,omitempty"`
	// Restarts counts the attempts to start its process again.
	Restarts int `json:"restarts" yaml:"restarts"`
	// Version and SHA256 are those of the program that runs, empty for one in process.
	Version string `json:"version,omitempty" yaml:"version,omitempty"`
	SHA256  string `json:"sha256,omitempty" yaml:"sha256,omitempty"`
	// Since is when the state was entered.
	Since time.Time `json:"since,omitzero" yaml:"since,omitempty"`
	// Ended says how the previous process ended. Log holds its last lines.
	Ended string   `json:"ended,omitempty" yaml:"ended,omitempty"`
	Log   []string `json:"log,omitempty" yaml:"log,omitempty"`
	// Figures are counters and facts of the process by name. For a transport they are
	// operations, bytes copied, and how it reaches memory of others. For any process they
	// say which limits hold and which do not, and what its sandbox takes.
	Figures map[string]string `json:"figures,omitempty" yaml:"figures,omitempty"`
}

// ID returns the plugin's kind and name.
func (in Instance) ID() plugin.ID { return plugin.ID{Kind: in.Kind, Name: in.Name} }

// figure adds a figure, without changing the map that others may read. An empty text adds none.
func (in *Instance) figure(name, text string) {
	if text == "" {
		return
	}
	in.Figures = maps.Clone(in.Figures)
	if in.Figures == nil {
		in.Figures = map[string]string{}
	}
	in.Figures[name] = text
}

// status keeps the state of an instance and reports changes to its host.
type status struct {
	reporting sync.Mutex // keeps reports in order; held while Report runs

	mu   sync.Mutex
	now  Instance
	host plugin.Host
}

func newStatus(id plugin.ID, home string) *status {
	return &status{now: Instance{Kind: id.Kind, Name: id.Name, Home: home, State: plugin.StateAvailable}}
}

func (s *status) instance() Instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// attach sets the host that gets reports.
func (s *status) attach(h plugin.Host) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.host = h
}

// set changes the state. Readers see the changes of edit together with it. edit may be nil.
func (s *status) set(h plugin.Health, edit func(*Instance)) {
	s.setIf(func() bool { return true }, h, edit)
}

// setIf calls set if still returns true. No other change can come between the two.
func (s *status) setIf(still func() bool, h plugin.Health, edit func(*Instance)) {
	s.reporting.Lock()
	defer s.reporting.Unlock()
	if !still() {
		return
	}
	s.mu.Lock()
	if s.now.State != h.State {
		s.now.Since = time.Now()
	}
	s.now.State, s.now.Reason = h.State, h.Reason
	if edit != nil {
		edit(&s.now)
	}
	host := s.host
	s.mu.Unlock()
	if host != nil {
		host.Report(h)
	}
}

// edit changes fields other than the state.
func (s *status) edit(f func(*Instance)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.now)
}

// security returns what the host says of the protection of this process.
func (s *status) security() security.Settings {
	s.mu.Lock()
	defer s.mu.Unlock()
	return security.OfHost(s.host)
}

// logger returns the host's logger, or fallback while no host is attached.
func (s *status) logger(fallback *slog.Logger) *slog.Logger {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.host != nil {
		return s.host.Logger()
	}
	return fallback
}

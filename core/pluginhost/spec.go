package pluginhost

import (
	"encoding/json"
	"time"

	"github.com/mooncake-go/mooncake/core/pluginhost/launch"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

// Mode says where a plugin runs.
type Mode string

// The modes. The empty mode is ModeAuto.
const (
	ModeAuto       Mode = "auto"       // in process where it is linked in, else as a subprocess
	ModeInProcess  Mode = "inprocess"  // linked in, or an error
	ModeSubprocess Mode = "subprocess" // the binary that is found, or an error
)

// Spec is what the configuration says about one plugin.
type Spec struct {
	Mode Mode
	// Config holds the plugin's settings as JSON values. They are decoded strictly over its
	// defaults.
	Config map[string]any
	// Env names further variables of this process that the plugin's process gets, besides
	// those that every plugin process gets.
	Env []string
	// Limits bound the plugin's process.
	Limits launch.Limits
	// Read and Write are absolute paths that the sandbox leaves to the plugin's process, besides those in Config.
	Read, Write []string
	// ByHand makes the host wait for a process that an operator starts, see launch.Options. It is refused in a
	// secured process and where trust is not off, since the host cannot know what such a process runs.
	ByHand func(launch.ByHand)
}

// Supervision bounds a plugin process. Every zero field takes the default.
type Supervision struct {
	// StartTimeout bounds the handshake, and again Configure with Start. Default 10 s.
	StartTimeout time.Duration
	// CallTimeout bounds each call. Default 10 s.
	CallTimeout time.Duration
	// ReplayTimeout bounds Replay. Default 1 min.
	ReplayTimeout time.Duration
	// BackoffMin is the pause before the first restart, with a jitter of a quarter. Each
	// further restart within Window doubles the pause, up to BackoffMax. Defaults 100 ms and
	// 10 s.
	BackoffMin, BackoffMax time.Duration
	// MaxRestarts is the most restarts within Window; one more failure and the plugin has
	// failed. Defaults 5 and 1 min.
	MaxRestarts int
	Window      time.Duration
	// MaxTimeouts is how many calls in a row, or pings in a row, may go without an answer
	// before the process is killed. Calls that wait at the same time count as one. Default 3;
	// negative for no limit.
	MaxTimeouts int
	// PulseEvery is the interval between pings of a process. Default 5 s; negative for no
	// pings.
	PulseEvery time.Duration
	// PublishGrace is how long the old process of a transport goes on serving peers after a
	// Reload if it is not reported that they can find the new one. Default 10 s.
	PublishGrace time.Duration
	// StopTimeout bounds Stop, after which the process is killed. Default 10 s.
	StopTimeout time.Duration
	// Broken, if not nil, is called with the reason for each process that the host killed because it broke the contract, before
	// Stop returns. A conformance suite needs it: the supervisor replaces such a process, and completes what it left.
	Broken func(reason string)
	// DrainTimeout bounds the work that the old process finishes after a Reload. Default 1 min.
	DrainTimeout time.Duration
}

func (s Supervision) withDefaults() Supervision {
	set := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	set(&s.StartTimeout, 10*time.Second)
	set(&s.CallTimeout, wire.DefaultTimeout)
	set(&s.ReplayTimeout, time.Minute)
	set(&s.BackoffMin, 100*time.Millisecond)
	set(&s.BackoffMax, 10*time.Second)
	set(&s.Window, time.Minute)
	set(&s.StopTimeout, stopTimeout)
	set(&s.PublishGrace, 10*time.Second)
	set(&s.DrainTimeout, time.Minute)
	if s.PulseEvery == 0 {
		s.PulseEvery = 5 * time.Second
	}
	if s.MaxRestarts <= 0 {
		s.MaxRestarts = 5
	}
	if s.MaxTimeouts == 0 {
		s.MaxTimeouts = 3
	}
	return s
}

// Stage is where opening a plugin failed.
type Stage string

// The stages, in their order.
const (
	StageFind   Stage = "find"
	StageConfig Stage = "configure"
	StageLaunch Stage = "launch"
	StageStart  Stage = "start"
	StageReplay Stage = "replay"
)

// OpenError says which plugin could not be made usable, and at which stage. The cause
// carries an errs.Code.
type OpenError struct {
	ID    plugin.ID
	Stage Stage
	Err   error
}

// Error implements error.
func (e *OpenError) Error() string {
	return "plugin " + wire.Named(e.ID.String()+": "+string(e.Stage), e.Err.Error())
}

// Unwrap returns the cause.
func (e *OpenError) Unwrap() error { return e.Err }

// settings turns the map of the configuration into what a plugin decodes.
func settings(config map[string]any) ([]byte, error) {
	if len(config) == 0 {
		return nil, nil
	}
	text, err := json.Marshal(config)
	if err != nil {
		return nil, errs.New(errs.InvalidParams, "", "the settings cannot be written as JSON: %w", err)
	}
	return text, nil
}

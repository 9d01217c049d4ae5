package transfer

import (
	"github.com/mooncake-go/mooncake/core/transfer/carrier"
	"github.com/mooncake-go/mooncake/core/transfer/lifetime"
	"github.com/mooncake-go/mooncake/core/transfer/rail"
	"github.com/mooncake-go/mooncake/core/transfer/region"
	"github.com/mooncake-go/mooncake/core/transfer/request"
	"github.com/mooncake-go/mooncake/core/transfer/settings"
)

// The parts of an engine that its callers see.
type (
	// Config is the configuration of an engine.
	Config = settings.Config
	// Carrier is a transport as the engine uses it.
	Carrier = carrier.Carrier
	// Renewing is a transport whose process may be started again.
	Renewing = carrier.Renewing
	// Memory is memory of this process that is to be registered.
	Memory = region.Memory
	// Request asks for one range of bytes to be moved.
	Request = request.Request
	// Result is the outcome of a request.
	Result = request.Result
	// State is how far a request is.
	State = request.State
	// Status is the state of a request with its bytes and error.
	Status = request.Status
	// RailStats are the figures of one rail.
	RailStats = rail.Stats
)

// The states of a request. Those from Invalid on are terminal.
const (
	Waiting   = request.Waiting
	Pending   = request.Pending
	Invalid   = request.Invalid
	Canceled  = request.Canceled
	Completed = request.Completed
	Timeout   = request.Timeout
	Failed    = request.Failed
)

// The errors of an engine, for errors.Is.
var (
	ErrClosed          = lifetime.ErrClosed
	ErrQuarantined     = request.ErrQuarantined
	ErrTimeout         = request.ErrTimeout
	ErrCanceled        = request.ErrCanceled
	ErrLapsed          = request.ErrLapsed
	ErrStalled         = request.ErrStalled
	ErrTooManyRequests = request.ErrTooManyRequests
	ErrBatchBusy       = request.ErrBatchBusy
	ErrStaleBatch      = request.ErrStaleBatch
)

// DefaultConfig returns the defaults.
func DefaultConfig() Config { return settings.DefaultConfig() }

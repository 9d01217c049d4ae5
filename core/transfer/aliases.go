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
	// Carrier is what an engine is told of a transport.
	Carrier = carrier.Carrier
	// Memory is the memory of a registered region.
	Memory = region.Memory
	// Request is one Read or Write.
	Request = request.Request
	// Result is the outcome of a request.
	Result = request.Result
	// State is a snapshot of a request.
	State = request.State
	// Status is the progress of a request.
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
	ErrTooManyRequests = request.ErrTooManyRequests
	ErrBatchBusy       = request.ErrBatchBusy
	ErrStaleBatch      = request.ErrStaleBatch
)

// DefaultConfig returns the defaults.
func DefaultConfig() Config { return settings.DefaultConfig() }

// Package device opens the RDMA devices of a machine and follows their state. A device has
// completion queues, which goroutines and reapers poll, and queue pairs, whose results and events
// it hands to their owners.
package device

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/config"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/x/advice"
)

// Env is what the parts of a transport share. Those fields that are no counters are set before
// devices, rails and connections use them.
type Env struct {
	Config *config.Config
	Log    *slog.Logger
	// Context ends when the transport stops.
	Context context.Context
	// Incarnation is this side's.
	Incarnation uint64
	// Label returns the name of this node in the names of connections.
	Label func() string
	// Changed tells the host that endpoint, segment or rails may be different now.
	Changed func()
	// Traffic counts the goroutines of connections and paths, Work the others. Those of Traffic
	// end first.
	Traffic, Work sync.WaitGroup
	// Sleepers is how many reapers sleep while operations are in flight.
	Sleepers atomic.Int64
	// The counters of the transport; its Stats explain them.
	OpsOK, OpsFailed, OpsQuarantined     atomic.Uint64
	Dials, DialsFailed, Accepts, Refused atomic.Uint64
	Foreign, Overflow, Events            atomic.Uint64
}

// Advised makes an error of an advice; causes say where it came from.
func Advised(a advice.Advice, causes ...error) error {
	err := errors.New(a.Why)
	if cause := errors.Join(causes...); cause != nil {
		err = fmt.Errorf("%s: %w", a.Why, cause)
	}
	return &errs.Error{Code: errs.UnavailableInCurrentStatus, Class: errs.ClassLocalDevice, Hint: a.Do, Err: err}
}

// ExplainOpen says what to do about a device that cannot be opened.
func ExplainOpen(err error) error {
	for _, e := range []error{syscall.EACCES, syscall.EPERM, syscall.ENOENT, syscall.ENODEV} {
		if errors.Is(err, e) {
			return Advised(advice.NotOpenable(), err)
		}
	}
	return err
}

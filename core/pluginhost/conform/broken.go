package conform

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// verdict is what the host says of the processes of one object. The host kills a process that breaks the contract, starts
// another one and completes the operations in flight, so that callers notice nothing. A suite has to notice.
type verdict struct{ broken atomic.Pointer[string] }

// watching returns bounds by which the supervisor reports to v. The first report counts.
func (v *verdict) watching(bounds pluginhost.Supervision) pluginhost.Supervision {
	bounds.Broken = func(reason string) { v.broken.CompareAndSwap(nil, &reason) }
	return bounds
}

// with adds the verdict to the error of Stop, by which time each process has been judged.
func (v *verdict) with(err error) error {
	why := v.broken.Load()
	if why == nil {
		return err
	}
	return errors.Join(err, errs.New(errs.Internal, "", "the host had to kill the plugin's process because it broke the contract: %s", *why))
}

// judgedTransport is a transport whose Stop returns an error if one of its processes broke the contract.
type judgedTransport struct {
	transport.Transport
	verdict *verdict
}

// Unwrap lets transport.As find companions.
func (j judgedTransport) Unwrap() any { return j.Transport }

// Stop implements plugin.Component.
func (j judgedTransport) Stop(ctx context.Context) error {
	return j.verdict.with(j.Transport.Stop(ctx))
}

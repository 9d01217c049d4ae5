package app

import (
	"context"
	"time"

	rpcclient "github.com/mooncake-go/mooncake/core/api/rpc/client"
	"github.com/mooncake-go/mooncake/core/api/rpc/server"
	"github.com/mooncake-go/mooncake/core/ha"
)

// front is a campaign.Master that has no objects of its own.
type front struct{ port *server.Port }

// Lead implements campaign.Master.
func (f *front) Lead(ctx context.Context, _ ha.Leadership) error { return openPort(ctx, f.port) }

// Halt implements campaign.Master.
func (f *front) Halt(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, haltTimeout)
	defer cancel()
	f.port.Close(ctx)
}

// Retire implements campaign.Master.
func (f *front) Retire(ctx context.Context) { f.port.Close(ctx) }

// Follow implements campaign.Master.
func (f *front) Follow(ctx context.Context, _ ha.View) { <-ctx.Done() }

// Forget implements campaign.Master.
func (f *front) Forget(context.Context) error { return nil }

// passing is the server.Observer of the front: the masters of the cells count the calls that it passes on.
type passing struct {
	*rpcclient.Pool
	of *celled
}

func (p passing) first() server.Observer { return p.of.cells[0].current.Load().service }

// ObserveRPC implements server.Observer.
func (p passing) ObserveRPC(string, time.Duration) {}

// ObserveForeign implements server.Observer.
func (p passing) ObserveForeign(protocol string) { p.first().ObserveForeign(protocol) }

// ObserveUpstreamConnections implements server.Observer.
func (p passing) ObserveUpstreamConnections(int) {}

// ObserveRequestMemory implements server.Observer.
func (p passing) ObserveRequestMemory(int64) {}

// ObserveRequestWait implements server.Observer.
func (p passing) ObserveRequestWait() { p.first().ObserveRequestWait() }

// ObserveConnClosed implements server.Observer.
func (p passing) ObserveConnClosed(why string) { p.first().ObserveConnClosed(why) }

// Quiesce implements server.Observer.
func (p passing) Quiesce(context.Context) {}

package upstream

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/mooncake-go/mooncake/core/api/lean"
	"github.com/mooncake-go/mooncake/core/api/upstream/calls"
)

// Options are the settings of a Server. Handler is required.
type Options struct {
	Handler Handler
	// Logger, nil for none.
	Logger *slog.Logger
	// Frame is the largest request in bytes, and the largest answer. Default 16 MiB.
	Frame int
	// Calls is how many calls of one connection may be in flight; more wait unread. Default 64.
	Calls int
	// Stall is how long a client may not take what is sent to it, and how long a small request may
	// take to arrive. Default 10 s.
	Stall time.Duration
	// Call is how long the server works on a call at most. Default 30 s, after which a client closes
	// its connection.
	Call time.Duration
	// Idle is how long a connection may have no call in flight before the server closes it, which
	// costs the client a failed call: 5 minutes at least. 0 means for ever.
	Idle time.Duration
	// Poll is how long a wait polls (package busypoll).
	Poll time.Duration
	// Budget, where set, is asked for memory before a large request is read.
	Budget lean.Budget
	// Name returns the name of a function, and "" for one that is not known. Readers returns the
	// versions that can read an answer to it that is for another one. By default they ask package calls.
	Name    func(function uint32) string
	Readers func(function uint32, as calls.Version) calls.Versions
	// Observe, where set, is told how long each call of a known function took, by the name of this
	// project's own call where there is the same. Connections, where set, is told by how many the
	// connections become more. Called from many goroutines; they must not block.
	Observe     func(method string, took time.Duration)
	Connections func(more int)
}

// leastIdle is the least time after which an idle connection is closed. Clients close theirs a minute
// after the last call.
const leastIdle = 5 * time.Minute

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Frame <= 0 {
		o.Frame = 16 << 20
	}
	if o.Calls <= 0 {
		o.Calls = 64
	}
	if o.Stall <= 0 {
		o.Stall = 10 * time.Second
	}
	if o.Call <= 0 {
		o.Call = 30 * time.Second
	}
	if o.Idle > 0 {
		o.Idle = max(o.Idle, leastIdle)
	}
	if o.Name == nil {
		o.Name = nameOf
	}
	if o.Readers == nil {
		o.Readers = readersOf
	}
	if o.Observe == nil {
		o.Observe = func(string, time.Duration) {}
	}
	if o.Connections == nil {
		o.Connections = func(int) {}
	}
	return o
}

func nameOf(function uint32) string {
	if f := calls.Lookup(function); f != nil {
		return f.Name()
	}
	return ""
}

func readersOf(function uint32, as calls.Version) calls.Versions {
	if f := calls.Lookup(function); f != nil {
		return f.Readers(as)
	}
	return calls.All
}

// shared is what all connections of a server have in common.
type shared struct {
	o        Options
	refusals *refusals
	ctx      context.Context // ends when calls are cut off
	taking   context.Context // ends when no more calls are taken
}

// called names a function in a text.
func (o Options) called(function uint32) string {
	if name := o.Name(function); name != "" {
		return name
	}
	return fmt.Sprintf("function %08x", function)
}

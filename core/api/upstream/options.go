package upstream

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/mooncake-go/mooncake/core/api/upstream/calls"
	"github.com/mooncake-go/mooncake/core/internal/access"
	"github.com/mooncake-go/mooncake/core/internal/framed"
)

// Options are the settings of a Server. Handler is required.
type Options struct {
	Handler Handler
	// Logger, nil for none.
	Logger *slog.Logger
	// Limits bound the connections of a client. The defaults are 16 MiB for Frame, a request or an answer; 64
	// for Calls; and 30 s for Call, after which a client closes its connection. Idle is 5 minutes at least:
	// it costs the client a failed call.
	framed.Limits
	// Name returns the name of a function, and "" for one that is not known. Readers returns the
	// versions that can read an answer to it that is for another one. By default they ask package calls.
	Name    func(function uint32) string
	Readers func(function uint32, as calls.Version) calls.Versions
	// Access decides over the calls of peers with an identity; nil tells nothing of those it refuses.
	Access *access.Control
	// Observe, where set, is told how long each call of a known function took, by the name of this
	// project's own call where there is the same. Called from many goroutines; it must not block.
	Observe func(method string, took time.Duration)
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
	o.Limits = o.Limits.WithDefaults()
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

// called names a function in a text.
func (o Options) called(function uint32) string {
	if name := o.Name(function); name != "" {
		return name
	}
	return fmt.Sprintf("function %08x", function)
}

package transporttest

import (
	"testing"

	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Option gives the suite what it cannot know.
type Option func(*options)

type options struct {
	config     func() plugin.Config
	restartAt  func(plugin.Config, transport.Endpoint) plugin.Config
	frozen     func(testing.TB, transport.Endpoint) transport.Endpoint
	limitBytes int
	deviceDown func(testing.TB, string) func()
	without    map[string]string
	shared     func(testing.TB, int) ([]byte, int)
}

// WithConfig makes every transport of the suite from config(), which returns a fresh
// value, instead of the factory's defaults. Use it for short timeouts.
func WithConfig(config func() plugin.Config) Option {
	return func(o *options) { o.config = config }
}

// WithRestart lets the suite restart a peer. at changes a fresh configuration so that a
// transport made from it answers where the stopped one's endpoint points.
func WithRestart(at func(plugin.Config, transport.Endpoint) plugin.Config) Option {
	return func(o *options) { o.restartAt = at }
}

// WithFrozen lets the suite talk to a peer that does not answer. frozen returns an
// endpoint that differs from live only in that what listens there takes connections or
// requests and never answers. It frees what it made with t.Cleanup.
func WithFrozen(frozen func(t testing.TB, live transport.Endpoint) transport.Endpoint) Option {
	return func(o *options) { o.frozen = frozen }
}

// WithLimit says how many bytes one path accepts at most before Submit pushes back, when
// the operations are smaller than that. Without it the check only looks for some limit.
func WithLimit(bytes int) Option {
	return func(o *options) { o.limitBytes = bytes }
}

// Without leaves out a check, by name, that cannot hold for what is tested, and says why.
func Without(check, why string) Option {
	return func(o *options) {
		if o.without == nil {
			o.without = map[string]string{}
		}
		o.without[check] = why
	}
}

// WithDeviceDown lets the suite take a device of this machine away, for all transports that
// use it. down returns when that was begun; what it returns gives the device back.
func WithDeviceDown(down func(t testing.TB, device string) (up func())) Option {
	return func(o *options) { o.deviceDown = down }
}

// WithSharedMemory has the suite open memory to peers that shared returns: size zeroed bytes
// from the beginning of what the descriptor stands for. It frees them with t.Cleanup. Without
// it, such memory is the heap's and has no descriptor.
func WithSharedMemory(shared func(t testing.TB, size int) (mem []byte, fd int)) Option {
	return func(o *options) { o.shared = shared }
}

// Run checks the transports that f makes.
func Run(t *testing.T, f transport.Factory, opts ...Option) {
	s := &suite{f: f}
	for _, o := range opts {
		o(&s.options)
	}
	for _, c := range []struct {
		name string
		run  func(*suite, *testing.T)
	}{
		{"manifest", (*suite).manifest},
		{"stop before start", (*suite).stopBeforeStart},
		{"stop twice and at once", (*suite).stopTwice},
		{"nothing works outside start and stop", (*suite).outsideLife},
		{"incarnations differ", (*suite).incarnations},
		{"register refuses", (*suite).registerRefuses},
		{"register again after deregister", (*suite).registerAgain},
		{"content at many sizes", (*suite).content},
		{"content at random", (*suite).contentAtRandom},
		{"one operation larger than everything", (*suite).large},
		{"many goroutines and paths", (*suite).many},
		{"a transport reaches itself", (*suite).itself},
		{"zero length", (*suite).zeroLength},
		{"submit refuses", (*suite).submitRefuses},
		{"import refuses", (*suite).importRefuses},
		{"dial refuses", (*suite).dialRefuses},
		{"rights of peers", (*suite).rights},
		{"a key of somebody else", (*suite).foreignKey},
		{"a restarted peer", (*suite).restarted},
		{"back-pressure", (*suite).backPressure},
		{"exactly one completion", (*suite).exactlyOnce},
		{"reap waits for its context", (*suite).reapWaits},
		{"reap after close", (*suite).reapAfterClose},
		{"close wakes reapers", (*suite).closeWakes},
		{"close fails what is under way", (*suite).closeUnderWay},
		{"deregister while peers read", (*suite).deregisterUnderWay},
		{"a deadline in the past", (*suite).deadlinePast},
		{"a frozen peer", (*suite).frozenPeer},
		{"the peer stops", (*suite).peerStops},
		{"content over each rail", (*suite).rails},
		{"a rail that does not exist", (*suite).unknownRail},
		{"a device goes down and comes back", (*suite).railDown},
	} {
		t.Run(c.name, func(t *testing.T) {
			if why, ok := s.without[c.name]; ok {
				t.Skip(why)
			}
			c.run(s, t)
		})
	}
}

package transporttest

import (
	"testing"
	"time"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/internal/rig"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Option supplies what the suite cannot know of a transport.
type Option func(*options)

type options struct {
	config     func() plugin.Config
	restartAt  func(plugin.Config, transport.Endpoint) plugin.Config
	frozen     func(conformance.TB, transport.Endpoint) transport.Endpoint
	limitBytes int
	deviceDown func(conformance.TB, string) func()
	without    map[string]string
	shared     func(conformance.TB, int) ([]byte, int)
	processes  func() []int
	kill       func(pid int) error
	freeze     func(pid int) (thaw func() error, err error)
	configure  func(...map[string]any) []error
	settle     time.Duration // of rig.Released
	security   security.Settings
}

// WithConfig makes every transport of the suite from config(), which returns a fresh
// value, instead of the factory's defaults. Use it for short timeouts.
func WithConfig(config func() plugin.Config) Option {
	return func(o *options) { o.config = config }
}

// WithSecurity gives every transport of the suite the settings of a protected process.
func WithSecurity(settings security.Settings) Option {
	return func(o *options) { o.security = settings }
}

// WithRestart lets the suite restart a peer. at changes a fresh configuration so that a
// transport made from it answers where the stopped one's endpoint points.
func WithRestart(at func(plugin.Config, transport.Endpoint) plugin.Config) Option {
	return func(o *options) { o.restartAt = at }
}

// WithFrozen lets the suite talk to a peer that does not answer. frozen returns an endpoint like
// live that accepts connections or requests and never answers. It registers its cleanup with
// t.Cleanup.
func WithFrozen(frozen func(t conformance.TB, live transport.Endpoint) transport.Endpoint) Option {
	return func(o *options) { o.frozen = frozen }
}

// WithLimit sets the most bytes that one path accepts before Submit pushes back, if each operation
// is smaller than that. Without it the check accepts any limit.
func WithLimit(bytes int) Option {
	return func(o *options) { o.limitBytes = bytes }
}

// Without skips the named check, which the tested transport cannot pass, and reports why.
func Without(check, why string) Option {
	return func(o *options) {
		if o.without == nil {
			o.without = map[string]string{}
		}
		o.without[check] = why
	}
}

// WithDeviceDown lets the suite take down a device of this machine for all transports that use it.
// down returns once that has begun; the function that it returns brings the device back.
func WithDeviceDown(down func(t conformance.TB, device string) (up func())) Option {
	return func(o *options) { o.deviceDown = down }
}

// WithSharedMemory makes the suite register memory from shared: size zeroed bytes at the beginning
// of the file of the descriptor. shared frees them with t.Cleanup. Without this option, the memory
// comes from the heap and has no descriptor. SealedMemory is such a function.
func WithSharedMemory(shared func(t conformance.TB, size int) (mem []byte, fd int)) Option {
	return func(o *options) { o.shared = shared }
}

// WithProcesses tells the suite that each transport is a supervised process of its own:
// processes lists the IDs of those that run now. The suite then counts their resources too.
func WithProcesses(processes func() []int) Option {
	return func(o *options) { o.processes = processes }
}

// WithKill lets the suite kill such a process, as a crash would. Its supervisor restarts it. This
// option needs WithProcesses.
func WithKill(kill func(pid int) error) Option {
	return func(o *options) { o.kill = kill }
}

// WithFreeze lets the suite stop such a process for a moment, as a machine that hangs would, and let it go on. This
// option needs WithProcesses. FreezeProcess is such a function.
func WithFreeze(freeze func(pid int) (thaw func() error, err error)) Option {
	return func(o *options) { o.freeze = freeze }
}

// WithSettings lets the suite try settings of the manifest: for each argument, configure makes a transport from the
// settings of the suite with the given ones over them, and frees it. It returns why each was refused. Without this option, the
// suite decodes them over its own configuration.
func WithSettings(configure func(settings ...map[string]any) []error) Option {
	return func(o *options) { o.configure = configure }
}

// FreezeProcess stops a process by SIGSTOP, and returns when all of its threads have stopped.
func FreezeProcess(pid int) (thaw func() error, err error) { return rig.Freeze(pid) }

// Run checks the transports that f makes, each check as a subtest of t.
func Run(t *testing.T, f transport.Factory, opts ...Option) {
	conformance.Test(t, Suite(f, opts...))
}

// Suite returns the checks for the transports that f makes.
func Suite(f transport.Factory, opts ...Option) conformance.Suite {
	var o options
	for _, set := range opts {
		set(&o)
	}
	out := conformance.Suite{Name: plugin.KindTransport, Plugin: f.Manifest()}
	for _, c := range checks() {
		s := &suite{f: f, options: o}
		out.Cases = append(out.Cases, conformance.Case{
			Name: c.name, Rule: c.rule, Skip: o.without[c.name], Vital: c.name == rig.Vital, Run: func(t conformance.T) { s.one(t, c.run) },
		})
	}
	return out
}

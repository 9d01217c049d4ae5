package tiertest

import (
	"time"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/internal/rig"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

// Option supplies what the suite cannot know of a tier.
type Option func(*options)

type options struct {
	config  func(conformance.TB) plugin.Config
	storage func(conformance.TB, plugin.Config) Storage
	shared  func(conformance.TB, int) ([]byte, int)
	kill    func(tier.Tier) error

	processes func() []int
	without   map[string]string
	settle    time.Duration // of rig.Released
	patience  time.Duration
}

// WithConfig makes each tier of the suite from config(t), the configuration of a new, empty volume
// with a capacity of 4 to 256 MiB; t.TempDir is a place for it. Two tiers that are made from the same
// result, one after the other, open the same volume.
//
// Without this option, each check starts a tier from the defaults and begins with Wipe. So that the
// suite destroys no records of others, the volume must be empty at first.
func WithConfig(config func(t conformance.TB) plugin.Config) Option {
	return func(o *options) { o.config = config }
}

// Storage is access to the storage beneath a tier. The suite skips the checks that need a function
// that is nil.
type Storage struct {
	// Damage flips a bit of the record with this value, which is at least 512 bytes. It reports
	// whether it found one.
	Damage func(value []byte) bool
	// Hang makes the storage stop responding until resume is called.
	Hang func() (resume func())
	// Fail makes each read and write fail as a broken device does, until repair is called.
	Fail func() (repair func())
	// Crash makes the storage lose what was not flushed. The suite calls it after it stopped the last
	// tier.
	Crash func()
}

// WithStorage gives the suite access to the storage beneath the tiers of a configuration of
// WithConfig.
func WithStorage(storage func(conformance.TB, plugin.Config) Storage) Option {
	return func(o *options) { o.storage = storage }
}

// WithSharedMemory makes the suite register memory from shared: size zeroed bytes at the beginning of
// the file of the descriptor. shared frees them with t.Cleanup. Without this option, the memory comes
// from the heap and has no descriptor. A tier in a process of its own needs it. SealedMemory is such a
// function.
func WithSharedMemory(shared func(t conformance.TB, size int) (mem []byte, fd int)) Option {
	return func(o *options) { o.shared = shared }
}

// SealedMemory is shared memory for WithSharedMemory: a sealed memory file.
func SealedMemory(t conformance.TB, size int) (mem []byte, fd int) { return rig.SealedMemory(t, size) }

// WithProcesses lets the suite count what the processes of tiers hold. list returns the IDs of those that run.
func WithProcesses(list func() []int) Option {
	return func(o *options) { o.processes = list }
}

// WithPatience bounds each call and each wait for a completion. Only a tier that hangs reaches the default, 30 s.
func WithPatience(d time.Duration) Option { return func(o *options) { o.patience = d } }

// WithKill lets the suite end the process of a tier, as a crash would. kill returns once the process is
// gone. Its supervisor starts the next one.
func WithKill(kill func(t tier.Tier) error) Option { return func(o *options) { o.kill = kill } }

// Without leaves out a check, by name, that cannot hold for what is tested, and says why.
func Without(check, why string) Option {
	return func(o *options) {
		if o.without == nil {
			o.without = map[string]string{}
		}
		o.without[check] = why
	}
}

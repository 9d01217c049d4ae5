package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/mooncake-go/mooncake/sdk/internal/seal"
)

// Host is what a plugin gets from the program it runs in. It is valid from Start until
// Stop returns, and safe for concurrent use.
type Host interface {
	// Logger returns a logger that already names the plugin.
	Logger() *slog.Logger
	// Report reports a change of health to the host. It does not block.
	Report(Health)
}

// Component is the lifecycle that the object behind every contract has.
type Component interface {
	// Start acquires what the object needs. It returns when the object is ready, or returns an
	// error and leaves nothing behind. The context bounds the start only.
	Start(ctx context.Context, host Host) error
	// Stop drains, then frees. It may be called at any time, also before Start, more than
	// once and concurrently; a second call waits for the first. When the context ends
	// first, what could not be drained is dropped and Stop still frees everything.
	Stop(ctx context.Context) error
}

// State is where a plugin stands, as `plugins list` and the metrics show it.
type State string

// The states.
const (
	StateAvailable State = "available" // known, not in use
	// StateUnavailable means known, but not usable on this machine.
	StateUnavailable State = "unavailable"
	StateStarting    State = "starting"
	StateOK          State = "ok"
	StateDegraded    State = "degraded"
	StateRestarting  State = "restarting"
	StateFailed      State = "failed"
	StateStopping    State = "stopping"
	StateStopped     State = "stopped"
)

// Health is a state with the reason for it, empty for ok.
type Health struct {
	State  State
	Reason string
}

// Factory makes plugins of one kind. Obtain one from the Define function of the kind;
// the interface is sealed so that it can grow without breaking authors.
type Factory interface {
	// Manifest describes the plugin. It has no side effects and always answers the same.
	Manifest() Manifest
	// DefaultConfig returns a new Config holding the defaults.
	DefaultConfig() Config
	// Settings returns the JSON Schema of the settings that the program accepts: SchemaOf the defaults. The one in the
	// manifest is for hosts that do not run the program.
	Settings() (json.RawMessage, error)
	// Check returns an error if the plugin cannot be used on this machine. It is quick and leaves
	// nothing behind.
	Check() error
	// Sealed is implemented only by Define.
	Sealed() seal.Token
}

// Base implements the part of Factory that all kinds share. It is for the Define
// functions of this module and is useless elsewhere.
type Base struct {
	manifest Manifest
	config   func() Config
	check    func() error
	invalid  error // of the manifest
}

// Option changes what a Define function makes.
type Option func(*Base)

// WithCheck gives a plugin that depends on the machine, on a library or a device, a way to
// tell before it is used: see Factory.Check.
func WithCheck(check func() error) Option { return func(b *Base) { b.check = check } }

// NewBase is for the Define functions of this module. An invalid manifest, and one of another kind, is
// an error of the plugin's author: Check and New return it.
func NewBase(_ seal.Token, kind string, m Manifest, config func() Config, opts ...Option) Base {
	if config == nil {
		config = func() Config { return new(NoConfig) }
	}
	b := Base{manifest: m, config: config, check: func() error { return nil }}
	for _, o := range opts {
		o(&b)
	}
	b.invalid = m.Validate()
	if _, described := config().(Described); len(m.ConfigSchema) == 0 && !described && b.invalid == nil {
		b.manifest.ConfigSchema, b.invalid = SchemaOf(config()) // A manifest in the code, or of a plugin without settings.
	}
	if b.invalid == nil && m.Kind != kind {
		b.invalid = fmt.Errorf("%s: the manifest is of a plugin of kind %s, and it is defined as one of kind %s", m.ID, m.Kind, kind)
	}
	return b
}

// Manifest implements Factory.
func (b Base) Manifest() Manifest { return b.manifest }

// DefaultConfig implements Factory.
func (b Base) DefaultConfig() Config { return b.config() }

// Settings implements Factory.
func (b Base) Settings() (json.RawMessage, error) { return SchemaOf(b.config()) }

// Check implements Factory.
func (b Base) Check() error {
	if b.invalid != nil {
		return b.invalid
	}
	return b.check()
}

// Sealed implements Factory.
func (b Base) Sealed() seal.Token { return seal.Token{} }

// FactoryOf is a Factory whose plugins are of type T, the interface of a contract.
type FactoryOf[T any] interface {
	Factory
	// New makes a plugin from a validated configuration of the type of DefaultConfig. It
	// acquires nothing but memory.
	New(cfg Config) (T, error)
}

// Define makes a FactoryOf. It is for the Define functions of this module, which say what
// its arguments are, and is useless elsewhere.
func Define[T any, C Config](t seal.Token, kind string, m Manifest, defaults func() C, create func(C) (T, error), opts ...Option) FactoryOf[T] {
	base := NewBase(t, kind, m, func() Config { return defaults() }, opts...)
	return factory[T, C]{Base: base, create: create}
}

type factory[T any, C Config] struct {
	Base
	create func(C) (T, error)
}

// New implements FactoryOf.
func (f factory[T, C]) New(cfg Config) (T, error) {
	var none T
	if f.invalid != nil {
		return none, f.invalid
	}
	c, ok := cfg.(C)
	if !ok {
		return none, WrongConfig(f.Manifest().ID, f.DefaultConfig(), cfg)
	}
	return f.create(c)
}

// WrongConfig is the error of a factory that got a configuration of another plugin.
func WrongConfig(id ID, want, got Config) error {
	return fmt.Errorf("%s: configuration has type %T, want %T", id, got, want)
}

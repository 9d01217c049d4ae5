package pluginhost

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"

	"github.com/mooncake-go/mooncake/core/pluginhost/launch"
	"github.com/mooncake-go/mooncake/core/pluginhost/trust"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/sdk/tier"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// starter starts the program of a plugin, once for each process.
type starter[T plugin.Component] struct {
	c        *Catalog
	api      []uint
	entry    Entry // when it was opened
	spec     Spec
	settings []byte
	bounds   Supervision
	security func() security.Settings // of the host
}

// start checks the file again, since it may have been replaced, and runs the program.
func (s starter[T]) start(ctx context.Context, log *slog.Logger) (process[T], error) {
	if s.spec.ByHand != nil && (s.c.opts.Secured || s.c.opts.Rules.Resolve() != trust.ModeOff || len(s.c.opts.Keys) > 0) {
		return nil, errs.WithHint(errs.New(errs.NotSupported, s.entry.Home, "a program that is started by hand may be any program, and security.mode or plugins.trust demands a checked one"),
			"debug the plugin under a configuration with security.mode off and plugins.trust off")
	}
	e, image, err := s.c.finder.Admit(ctx, s.entry.Home, s.entry.ID(), s.c.logger(s.entry.ID()))
	if err != nil {
		return nil, err
	}
	if err := s.same(e.Manifest()); err != nil {
		image.Close()
		return nil, err
	}
	return s.run(ctx, image, log)
}

// same refuses a program whose capabilities differ from those that the plugin had when it
// was opened. Its callers rely on them.
func (s starter[T]) same(now plugin.Manifest) error {
	for _, c := range []plugin.Capability{transport.CapUpstream, transport.CapRails, transport.CapLocalAny, transport.CapSecure, tier.CapSurvives, tier.CapShared} {
		if had := s.entry.Manifest().Has(c); had != now.Has(c) {
			return errs.WithHint(errs.New(errs.InvalidVersion, s.entry.Home, "the file has changed since it was opened, and its capability %q with it", c),
				"start this program again to use it")
		}
	}
	return nil
}

func (s starter[T]) run(ctx context.Context, image *launch.Image, log *slog.Logger) (process[T], error) {
	id, path := s.entry.ID(), s.entry.Home
	p, err := launch.Start(ctx, launch.Options{
		Path: path, Image: image, ID: id, API: s.api, Env: slices.Concat(s.c.opts.Env, s.spec.Env), Limits: s.spec.Limits, Sandbox: s.policy(image.Reader()),
		StartTimeout: s.bounds.StartTimeout, CallTimeout: s.bounds.CallTimeout, ByHand: s.spec.ByHand, Logger: log,
	})
	if err != nil {
		return nil, err
	}
	for _, d := range plugin.Differences(s.entry.Manifest().ConfigSchema, p.Settings()) {
		log.Warn("the program accepts other settings than its manifest says; its author should correct the manifest, until then the program decides", "difference", d)
	}
	object, ok := p.Client().(T)
	if !ok {
		_ = p.Close(ctx)
		return nil, errs.New(errs.Internal, path, "the client of %s is a %T", id, p.Client())
	}
	return launched[T]{p, s, object}, nil
}

// launched makes a launch.Process a process.
type launched[T plugin.Component] struct {
	*launch.Process
	from   starter[T]
	object T
}

// Configure implements process.
func (l launched[T]) Configure(ctx context.Context) error {
	return l.Client().Configure(ctx, l.API(), l.from.settings)
}

// Object implements process.
func (l launched[T]) Object() T { return l.object }

// Ping checks whether the process answers.
func (l launched[T]) Ping(ctx context.Context) error {
	_, err := l.Client().Describe(ctx)
	return err
}

// About returns the version and the checksum of the program.
func (l launched[T]) About() (version, sum string) { return l.Manifest().Version, l.SHA256() }

// Again returns a function that starts the very same program again, whatever its file holds by
// now, and a function that frees the copy. Both are nil if the program cannot be read back: the
// process of a script, for one, runs the interpreter.
//
// The start does not consult the lock file. These bytes were admitted and ran until now, but a
// lock file that was updated for the failed program does not list them any more, and then
// nothing would be left to go back to.
func (l launched[T]) Again() (start func(context.Context, *slog.Logger) (process[T], error), forget func()) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/exe", l.PID()))
	if err != nil {
		return nil, nil
	}
	defer f.Close()
	image, err := launch.NewImage(f)
	if err != nil {
		return nil, nil
	}
	if image.SHA256 != l.SHA256() {
		image.Close()
		return nil, nil
	}
	return func(ctx context.Context, log *slog.Logger) (process[T], error) { return l.from.run(ctx, image, log) }, image.Close
}

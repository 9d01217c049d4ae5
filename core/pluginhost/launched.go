package pluginhost

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"

	"github.com/mooncake-go/mooncake/core/pluginhost/launch"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// starter starts the program of a plugin, as often as it has to be.
type starter[T plugin.Component] struct {
	c        *Catalog
	api      []uint
	entry    Entry // when it was opened
	spec     Spec
	settings []byte
	bounds   Supervision
}

// start runs the program once more, after looking at the file again: it may have been
// replaced since.
func (s starter[T]) start(ctx context.Context, log *slog.Logger) (process[T], error) {
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

// same refuses a program whose powers are not those that were found when the transport was
// opened: who uses it was told them then.
func (s starter[T]) same(now plugin.Manifest) error {
	for _, c := range []plugin.Capability{transport.CapUpstream, transport.CapRails, transport.CapLocalAny} {
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
		Path: path, Image: image, ID: id, API: s.api, Env: slices.Concat(s.c.opts.Env, s.spec.Env), Limits: s.spec.Limits,
		StartTimeout: s.bounds.StartTimeout, CallTimeout: s.bounds.CallTimeout, Logger: log,
	})
	if err != nil {
		return nil, err
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

// Ping asks whether the process is there.
func (l launched[T]) Ping(ctx context.Context) error {
	_, err := l.Client().Describe(ctx)
	return err
}

// About returns the version and the checksum of the program.
func (l launched[T]) About() (version, sum string) { return l.Manifest().Version, l.SHA256() }

// Again returns what starts the very same program once more, whatever its file is by now,
// and what forgets it; nil where it cannot be had, as for a script, whose process runs the
// interpreter. Nobody asks the lock file again: these bytes were admitted and ran until now,
// and a lock file that was written for the program that failed has them no more, so that
// asking would leave nothing to go back to.
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

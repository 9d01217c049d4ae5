// Package conform checks a plugin of a catalog against its contract, wherever the plugin lives:
// linked in, or in processes that are supervised as in a host.
package conform

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/alloc/alloctest"
	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/evict/evicttest"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/tier"
	"github.com/mooncake-go/mooncake/sdk/tier/tiertest"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/transporttest"
)

// Options select the tests of the suite, and say how the plugin's processes are supervised.
type Options struct {
	conformance.Options
	pluginhost.Supervision
}

// Run runs the suite of a plugin's kind on it, under the catalog's rules of trust, and returns
// the report. Tests that need a plugin linked into the test, for example for a peer that does
// not answer, are listed as skipped. The catalog should have nothing else open, because the
// suite counts and kills the plugin's processes.
//
// The error is about o, or it is a *pluginhost.OpenError if there is no such plugin.
func Run(ctx context.Context, c *pluginhost.Catalog, id plugin.ID, spec pluginhost.Spec, o Options) (conformance.Report, error) {
	m, err := c.Manifest(id, spec.Mode)
	if err != nil {
		return conformance.Report{}, err
	}
	s := &subject{catalog: c, id: id, spec: spec, bounds: o.Supervision, manifest: m}
	entry := s.entry()
	s.process = entry.Home != pluginhost.HomeBuiltin
	suite, err := s.suite()
	if err != nil {
		return conformance.Report{}, err
	}
	report, err := conformance.Run(ctx, suite, o.Options)
	report.Home, report.SHA256, report.Mode = entry.Home, entry.SHA256, string(pluginhost.ModeInProcess)
	if s.process {
		report.Mode = string(pluginhost.ModeSubprocess)
	}
	return report, err
}

// goneTimeout bounds the wait for the end of a process that was killed.
const goneTimeout = 30 * time.Second

// subject makes objects of one plugin.
type subject struct {
	catalog  *pluginhost.Catalog
	id       plugin.ID
	spec     pluginhost.Spec
	bounds   pluginhost.Supervision
	manifest plugin.Manifest
	process  bool
}

// entry is where the plugin lives.
func (s *subject) entry() pluginhost.Entry {
	for _, e := range s.catalog.List() {
		builtin := e.Home == pluginhost.HomeBuiltin
		switch {
		case e.ID() != s.id || e.State == plugin.StateFailed:
		case builtin && s.spec.Mode == pluginhost.ModeSubprocess:
		case !builtin && s.spec.Mode == pluginhost.ModeInProcess:
		default:
			return e
		}
	}
	return pluginhost.Entry{Home: pluginhost.HomeBuiltin}
}

// settings stands for the plugin's own configuration, which the plugin's process checks.
type settings struct{ of *subject }

// Validate implements plugin.Config.
func (*settings) Validate() error { return nil }

// SettingsSchema implements plugin.Described: the plugin's process has the settings.
func (c *settings) SettingsSchema() (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(context.Background(), goneTimeout)
	defer cancel()
	return c.of.catalog.Accepted(ctx, c.of.id, c.of.spec)
}

func (s *subject) defaults() *settings { return &settings{s} }

func (s *subject) suite() (conformance.Suite, error) {
	suites := map[string]func() conformance.Suite{ // A line for each kind.
		plugin.KindTransport: s.transport,
		plugin.KindEvict: func() conformance.Suite {
			return suite(s, evict.Define[*settings], (*pluginhost.Catalog).OpenEvict, evicttest.WithKill, evicttest.WithProcesses, evicttest.Suite)
		},
		plugin.KindAlloc: func() conformance.Suite {
			return suite(s, alloc.Define[*settings], (*pluginhost.Catalog).OpenAlloc, alloctest.WithKill, alloctest.WithProcesses, alloctest.Suite)
		},
		plugin.KindTier: s.tier,
	}
	of, ok := suites[s.id.Kind]
	if !ok {
		return conformance.Suite{}, errs.New(errs.NotSupported, "conformance", "there is no suite for plugins of kind %s", s.id.Kind)
	}
	return of(), nil
}

// suite makes the suite of a kind whose processes are resynced by a replay.
func suite[T plugin.Component, O any](s *subject,
	define func(plugin.Manifest, func() *settings, func(*settings) (T, error)) plugin.FactoryOf[T],
	open func(*pluginhost.Catalog, context.Context, plugin.ID, pluginhost.Spec, pluginhost.OpenOptions[T]) (T, error),
	withKill func(func(T, func(context.Context, T) error) error) O,
	withProcesses func(func() []int) O,
	of func(plugin.FactoryOf[T], ...O) conformance.Suite,
) conformance.Suite {
	var replay atomic.Pointer[func(context.Context, T) error]
	var opts []O
	if s.process {
		opts = append(opts, withKill(func(_ T, r func(context.Context, T) error) error {
			replay.Store(&r)
			return s.killAll()
		}), withProcesses(s.processes))
	}
	o := pluginhost.OpenOptions[T]{Supervision: s.bounds, Replay: func(ctx context.Context, object T) error {
		if f := replay.Load(); f != nil {
			return (*f)(ctx, object)
		}
		return nil
	}}
	return of(define(s.manifest, s.defaults, func(*settings) (T, error) {
		return open(s.catalog, context.Background(), s.id, s.spec, o)
	}), opts...)
}

func (s *subject) transport() conformance.Suite {
	opts := []transporttest.Option{
		transporttest.WithSharedMemory(transporttest.SealedMemory), transporttest.WithSettings(s.accepts),
	}
	if s.process {
		opts = append(opts, transporttest.WithProcesses(s.processes), transporttest.WithKill(kill), transporttest.WithFreeze(transporttest.FreezeProcess))
	}
	return transporttest.Suite(transport.Define(s.manifest, s.defaults, func(*settings) (transport.Transport, error) {
		v := &verdict{}
		tr, err := s.catalog.OpenTransport(context.Background(), s.id, s.spec, pluginhost.TransportOptions{Supervision: v.watching(s.bounds)})
		if err != nil {
			return nil, err
		}
		return judgedTransport{tr, v}, nil
	}), opts...)
}

// accepts tries settings over those of the subject.
func (s *subject) accepts(all ...map[string]any) []error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(len(all)+1)*goneTimeout)
	defer cancel()
	return s.catalog.TrySettings(ctx, s.id, s.spec, s.bounds, all...)
}

// tier makes the suite of a tier. Its volume must be empty.
func (s *subject) tier() conformance.Suite {
	var opts []tiertest.Option
	if s.process {
		opts = append(opts, tiertest.WithSharedMemory(tiertest.SealedMemory), tiertest.WithProcesses(s.processes), tiertest.WithKill(func(tier.Tier) error { return s.killWait() }))
	}
	if path, ok := s.spec.Config["path"].(string); ok { // As tiers that keep files call their folder.
		opts = append(opts, tiertest.WithStorage(func(conformance.TB, plugin.Config) tiertest.Storage { return tiertest.FilesBelow(path) }))
	}
	return tiertest.Suite(tier.Define(s.manifest, s.defaults, func(*settings) (tier.Tier, error) {
		return s.catalog.OpenTier(context.Background(), s.id, s.spec, pluginhost.TierOptions{Supervision: s.bounds})
	}), opts...)
}

// processes lists the running processes of the plugin.
func (s *subject) processes() []int {
	var out []int
	for _, in := range s.catalog.Instances() {
		if in.PID != 0 && in.ID() == s.id {
			out = append(out, in.PID)
		}
	}
	slices.Sort(out)
	return out
}

func (s *subject) killAll() error {
	pids := s.processes()
	if len(pids) == 0 {
		return fmt.Errorf("no process of %s runs", s.id)
	}
	for _, pid := range pids {
		if err := kill(pid); err != nil {
			return err
		}
	}
	return nil
}

// killWait is killAll, and waits until the processes are gone.
func (s *subject) killWait() error {
	before := s.processes()
	if err := s.killAll(); err != nil {
		return err
	}
	for end := time.Now().Add(goneTimeout); slices.ContainsFunc(s.processes(), func(pid int) bool { return slices.Contains(before, pid) }); {
		if time.Now().After(end) {
			return fmt.Errorf("the processes %v do not end within %s although they were killed", before, goneTimeout)
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

func kill(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Kill()
}

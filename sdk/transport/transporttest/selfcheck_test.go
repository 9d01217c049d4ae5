package transporttest_test

import (
	"context"
	"flag"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/transporttest"
	"github.com/mooncake-go/mooncake/sdk/transport/transporttest/reference"
)

func TestMain(m *testing.M) {
	for name, value := range map[string]string{"rapid.nofailfile": "true", "rapid.shrinktime": "0s"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

// bent is a transport with some of its methods replaced.
type bent struct {
	transport.Transport
	start      func(context.Context) error
	stop       func(context.Context) error
	endpoint   func() transport.Endpoint
	register   func(context.Context, transport.Region) (transport.Key, error)
	deregister func(context.Context, transport.RegionID) error
	dial       func(context.Context, transport.Endpoint) (transport.Path, error)
}

func (b *bent) Start(ctx context.Context, h plugin.Host) error {
	if b.start != nil {
		if err := b.start(ctx); err != nil {
			return err
		}
	}
	return b.Transport.Start(ctx, h)
}

func (b *bent) Stop(ctx context.Context) error {
	if b.stop != nil {
		return b.stop(ctx)
	}
	return b.Transport.Stop(ctx)
}

func (b *bent) Endpoint() transport.Endpoint {
	if b.endpoint != nil {
		return b.endpoint()
	}
	return b.Transport.Endpoint()
}

func (b *bent) Register(ctx context.Context, r transport.Region) (transport.Key, error) {
	if b.register != nil {
		return b.register(ctx, r)
	}
	return b.Transport.Register(ctx, r)
}

func (b *bent) Deregister(ctx context.Context, id transport.RegionID) error {
	if b.deregister != nil {
		return b.deregister(ctx, id)
	}
	return b.Transport.Deregister(ctx, id)
}

func (b *bent) Dial(ctx context.Context, e transport.Endpoint) (transport.Path, error) {
	if b.dial != nil {
		return b.dial(ctx, e)
	}
	return b.Transport.Dial(ctx, e)
}

// bentPath is a path with some of its methods replaced.
type bentPath struct {
	transport.Path
	imports func(context.Context, transport.Key) (transport.RemoteID, error)
	submit  func([]transport.Op) (int, error)
	reap    func(context.Context, []transport.Completion) (int, error)
	close   func(context.Context) error
}

// Unwrap lets transport.As find companions.
func (b *bentPath) Unwrap() any { return b.Path }

func (b *bentPath) Import(ctx context.Context, k transport.Key) (transport.RemoteID, error) {
	if b.imports != nil {
		return b.imports(ctx, k)
	}
	return b.Path.Import(ctx, k)
}

func (b *bentPath) Submit(ops []transport.Op) (int, error) {
	if b.submit != nil {
		return b.submit(ops)
	}
	return b.Path.Submit(ops)
}

func (b *bentPath) Reap(ctx context.Context, dst []transport.Completion) (int, error) {
	if b.reap != nil {
		return b.reap(ctx, dst)
	}
	return b.Path.Reap(ctx, dst)
}

func (b *bentPath) Close(ctx context.Context) error {
	if b.close != nil {
		return b.close(ctx)
	}
	return b.Path.Close(ctx)
}

// paths bends each path of a transport.
func paths(bend func(*bentPath)) func(*bent) {
	return func(b *bent) {
		b.dial = func(ctx context.Context, e transport.Endpoint) (transport.Path, error) {
			p, err := b.Transport.Dial(ctx, e)
			if err != nil {
				return nil, err
			}
			x := &bentPath{Path: p}
			bend(x)
			return x, nil
		}
	}
}

// submits bends each submitted operation.
func submits(change func(*transport.Op)) func(*bent) {
	return paths(func(p *bentPath) {
		p.submit = func(ops []transport.Op) (int, error) {
			ops = slices.Clone(ops)
			for i := range ops {
				change(&ops[i])
			}
			return p.Path.Submit(ops)
		}
	})
}

// completes bends each reaped completion.
func completes(change func(*transport.Completion)) func(*bent) {
	return paths(func(p *bentPath) {
		p.reap = func(ctx context.Context, dst []transport.Completion) (int, error) {
			n, err := p.Path.Reap(ctx, dst)
			for i := range dst[:n] {
				change(&dst[i])
			}
			return n, err
		}
	})
}

// everything lists checks that find many bugs, in addition to the check of the broken rule.
var everything = []string{
	"exactly one completion", "content at random", "many goroutines and paths", "contexts that have ended", "stop ends paths", "close fails what is in flight",
}

// heavy lists slow checks, which run only for bugs that they must find.
var heavy = []string{
	"content at many sizes", "content at random", "checksums", "a completion is terminal", "one operation larger than everything", "many goroutines and paths",
	"regions side by side", "exactly one completion", "exactly one completion, many at once", "deregister while peers read", "a path that is never reaped",
	"content of many kinds", "an indeterminate operation", "deregister in the midst of a write", "stop answers peers", "settings",
	"throughput", "a frozen peer", "leaks of paths and regions", "leaks of starts and stops",
}

func suiteOf(bug bug, opts ...transporttest.Option) conformance.Suite {
	n := reference.NewNetwork()
	inner := n.Factory()
	m := inner.Manifest()
	if bug.manifest != nil {
		bug.manifest(&m)
	}
	f := transport.Define(m, inner.DefaultConfig, func(c plugin.Config) (transport.Transport, error) {
		t, err := inner.New(c)
		if err != nil {
			return nil, err
		}
		b := &bent{Transport: t}
		bug.bend(b)
		if bug.wrap != nil {
			return bug.wrap(b), nil
		}
		return b, nil
	})
	opts = append(n.Options(), opts...)
	if bug.options != nil {
		opts = append(opts, bug.options()...)
	}
	return transporttest.Suite(f, opts...)
}

// bugs returns at least one bug for each rule.
func bugs() map[string]bug {
	all := contractBugs()
	for _, more := range []map[string]bug{lifecycleBugs(), flowBugs(), moveBugs(), sumBugs(), railBugs(), processBugs(), leakBugs(), guardBugs(), grantBugs()} {
		maps.Copy(all, more)
	}
	return all
}

// scored lists the checks whose bugs are in test/kitscore, because they need a transport with connections or settings.
var scored = []string{"content of many kinds", "an indeterminate operation", "deregister in the midst of a write", "stop answers peers", "settings"}

// TestEveryRuleHasABug: for each check there is a bug that makes it fail.
func TestEveryRuleHasABug(t *testing.T) {
	found, names := map[string]bool{}, map[string]bool{}
	for _, b := range bugs() {
		for _, c := range b.finds {
			found[c] = true
		}
	}
	for _, c := range suiteOf(bug{bend: func(*bent) {}}).Cases {
		names[c.Name] = true
		require.True(t, found[c.Name] || slices.Contains(scored, c.Name), "no seeded bug is found by %q, whose rule is: %s", c.Name, c.Rule)
	}
	for name := range found {
		require.True(t, names[name], "there is no check %q", name)
	}
}

// TestSuiteAcceptsWhatHasNoBug: the subjects with rails and with processes pass if they have no
// bug, so that their failures elsewhere are due to the bugs.
func TestSuiteAcceptsWhatHasNoBug(t *testing.T) {
	for name, c := range map[string]struct {
		subject bug
		checks  string
	}{
		"rails":     {withRails(""), "rail|device"},
		"processes": {withProcesses(""), "a killed process"},
		"late":      {bug{bend: paths(late(t))}, "deregister while peers read|stop answers peers"},
	} {
		t.Run(name, func(t *testing.T) {
			report, err := conformance.Run(t.Context(), suiteOf(c.subject), conformance.Options{Run: c.checks})
			require.NoError(t, err)
			for _, check := range report.Checks {
				require.Equal(t, conformance.Pass, check.Status, "%s: %s", check.Name, check.Log)
			}
		})
	}
}

// TestATransportWithoutSettings: the defaults of a plugin without settings are a type without fields, of which two values may have
// one address.
func TestATransportWithoutSettings(t *testing.T) {
	n := reference.NewNetwork()
	f := transport.Define(n.Factory().Manifest(), func() *plugin.NoConfig { return &plugin.NoConfig{} },
		func(*plugin.NoConfig) (transport.Transport, error) {
			return n.Factory().New(n.Factory().DefaultConfig())
		})
	report, err := conformance.Run(t.Context(), transporttest.Suite(f), conformance.Options{Run: "^manifest$"})
	require.NoError(t, err)
	require.Len(t, report.Checks, 1)
	require.Equal(t, conformance.Pass, report.Checks[0].Status, report.Checks[0].Log)
}

// TestEachRuleCanFail runs the suite on one broken transport after the other. Only the checks of
// the broken rule fail.
func TestEachRuleCanFail(t *testing.T) {
	for name, bug := range bugs() {
		t.Run(name, func(t *testing.T) {
			if bug.done != nil {
				t.Cleanup(bug.done) // Not in parallel: resources of other tests would count as leaks.
			} else {
				t.Parallel()
			}
			suite := suiteOf(bug, transporttest.WithSettle(100*time.Millisecond))
			suite.Cases = slices.DeleteFunc(suite.Cases, func(c conformance.Case) bool {
				return slices.Contains(heavy, c.Name) && !slices.Contains(bug.finds, c.Name)
			})
			report, err := conformance.Run(t.Context(), suite, conformance.Options{Limit: time.Minute, Patience: 10 * time.Second})
			require.NoError(t, err)
			var got []string
			for _, c := range report.Checks {
				if c.Status == conformance.Fail {
					got = append(got, c.Name)
					require.NotContains(t, c.Message, "did not end within", c.Name)
					if slices.Contains(bug.finds, c.Name) {
						require.Contains(t, c.Log, bug.says, "%q fails for another reason", c.Name)
					}
				}
			}
			for _, c := range bug.finds {
				require.Contains(t, got, c, "the check did not find the bug")
			}
			for _, c := range got {
				if name == "the same incarnation forever" {
					break // This bug breaks everything.
				}
				require.True(t, slices.Contains(bug.finds, c) || slices.Contains(bug.also, c) || slices.Contains(everything, c), "%q does not check the broken rule; failed: %q", c, got)
			}
		})
	}
}

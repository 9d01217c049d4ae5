package pluginhost

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

type cfg struct {
	Size int  `json:"size"`
	Fail bool `json:"fail"`
}

func (c *cfg) Validate() error {
	if c.Size < 1 {
		return errors.New("size must be at least 1")
	}
	return nil
}

// mild is a policy that remembers only its size.
type mild struct {
	evict.Policy
	cfg  cfg
	host plugin.Host
}

func (m *mild) Start(_ context.Context, h plugin.Host) error {
	if m.cfg.Fail {
		return errs.New(errs.NoAvailableHandle, "", "no device")
	}
	m.host = h
	return nil
}
func (m *mild) Stop(context.Context) error                     { return nil }
func (m *mild) Resolve(context.Context, []evict.Verdict) error { return errors.New("no device") }
func (m *mild) Stats(context.Context) (evict.Stats, error) {
	return evict.Stats{Objects: uint64(m.cfg.Size)}, nil
}

// listener is a host that records reports.
type listener struct{ reports chan plugin.Health }

func newListener() listener { return listener{make(chan plugin.Health, 256)} }

func (l listener) Logger() *slog.Logger   { return slog.New(slog.DiscardHandler) }
func (l listener) Report(h plugin.Health) { l.reports <- h }

func lru() plugin.ID { return plugin.ID{Kind: "evict", Name: "lru"} }

func TestInProcess(t *testing.T) {
	c := catalog(t, []plugin.Factory{builtin("evict", "lru")})
	ctx := t.Context()
	p, err := c.OpenEvict(ctx, lru(), Spec{Config: map[string]any{"size": int64(8)}}, EvictOptions{})
	require.NoError(t, err)
	st, err := p.Stats(ctx)
	require.NoError(t, err)
	assert.EqualValues(t, 8, st.Objects)
	assert.EqualError(t, p.Resolve(ctx, nil), "evict/lru: resolve: no device", "as of a plugin in a process of its own")
	assert.Equal(t, []Instance{{Kind: "evict", Name: "lru", Home: HomeBuiltin, State: plugin.StateAvailable}}, c.Instances())

	h := newListener()
	require.NoError(t, p.Start(ctx, h))
	assert.Equal(t, plugin.StateStarting, (<-h.reports).State)
	assert.Equal(t, plugin.StateOK, (<-h.reports).State)
	object := c.open[0].(*local).object.(*mild)
	object.host.Report(plugin.Health{State: plugin.StateDegraded, Reason: "hot"})
	assert.Equal(t, plugin.Health{State: plugin.StateDegraded, Reason: "hot"}, <-h.reports)
	assert.Equal(t, "hot", c.List()[0].Reason, "the list shows the state of what is in use")
	object.host.Logger().Info("x")
	require.NoError(t, p.Stop(ctx))
	require.NoError(t, p.Stop(ctx))
	assert.Empty(t, c.Instances())
}

func TestInProcessStartFails(t *testing.T) {
	c := catalog(t, []plugin.Factory{builtin("evict", "lru")})
	p, err := c.OpenEvict(t.Context(), lru(), Spec{Config: map[string]any{"fail": true}}, EvictOptions{})
	require.NoError(t, err)
	err = p.Start(t.Context(), nil)
	var oe *OpenError
	require.ErrorAs(t, err, &oe)
	assert.Equal(t, StageStart, oe.Stage)
	assert.ErrorIs(t, err, errs.NoAvailableHandle.Err())
	assert.Equal(t, plugin.StateFailed, c.List()[0].State)
	assert.Contains(t, c.List()[0].Reason, "no device")
}

func TestOpenRefusals(t *testing.T) {
	dir := folder(t)
	install(t, dir, "mooncake-plugin-evict-future", text(t, manifestOf(plugin.ID{Kind: "evict", Name: "future"}, 9)))
	install(t, dir, "mooncake-plugin-evict-broken", nil)
	c := catalog(t, []plugin.Factory{builtin("evict", "lru"), builtin("transport", "tcp")}, dir)
	ctx := t.Context()
	evictErr := func(id plugin.ID, s Spec) error {
		_, err := c.OpenEvict(ctx, id, s, EvictOptions{})
		return err
	}
	transportErr := func(name string, s Spec) error {
		_, err := c.OpenTransport(ctx, plugin.ID{Kind: "transport", Name: name}, s, TransportOptions{})
		return err
	}
	_, allocErr := c.OpenAlloc(ctx, plugin.ID{Kind: "alloc", Name: "arena"}, Spec{}, AllocOptions{})
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	_, cancelledErr := c.OpenEvict(cancelled, lru(), Spec{}, EvictOptions{})

	for name, c := range map[string]struct {
		err   error
		stage Stage
		code  errs.Code
		want  string
	}{
		"unknown name":        {evictErr(plugin.ID{Kind: "evict", Name: "fifo"}, Spec{}), StageFind, errs.FileNotFound, "no file mooncake-plugin-evict-fifo in " + dir},
		"misspelt name":       {transportErr("tpc", Spec{}), StageFind, errs.FileNotFound, `there is no transport "tpc"; did you mean "tcp"? (built in are tcp; no file mooncake-plugin-transport-tpc in ` + dir + ")"},
		"nothing of a kind":   {allocErr, StageFind, errs.FileNotFound, "built in are none of kind alloc"},
		"bad name":            {evictErr(plugin.ID{Kind: "evict", Name: "L R U"}, Spec{}), StageFind, errs.InvalidParams, "lower-case"},
		"bad mode":            {evictErr(lru(), Spec{Mode: "remote"}), StageFind, errs.InvalidParams, `mode "remote" is not`},
		"other kind":          {evictErr(plugin.ID{Kind: "alloc", Name: "lru"}, Spec{}), StageFind, errs.InvalidParams, "a plugin of kind evict is needed"},
		"not linked in":       {evictErr(plugin.ID{Kind: "evict", Name: "future"}, Spec{Mode: ModeInProcess}), StageFind, errs.NotSupported, "not linked into this program"},
		"no binary":           {evictErr(lru(), Spec{Mode: ModeSubprocess}), StageFind, errs.FileNotFound, "no file mooncake-plugin-evict-lru in " + dir},
		"refused binary":      {evictErr(plugin.ID{Kind: "evict", Name: "broken"}, Spec{}), StageFind, errs.FileOpenFail, "was refused: the file carries no"},
		"future contract":     {evictErr(plugin.ID{Kind: "evict", Name: "future"}, Spec{}), StageFind, errs.InvalidVersion, "this host speaks [1], the plugin [9]"},
		"unknown setting":     {evictErr(lru(), Spec{Config: map[string]any{"sise": 1}}), StageConfig, errs.InvalidParams, `did you mean "size"?`},
		"bad setting":         {evictErr(lru(), Spec{Config: map[string]any{"size": 0}}), StageConfig, errs.InvalidParams, "size must be at least 1"},
		"no JSON":             {evictErr(lru(), Spec{Config: map[string]any{"size": func() {}}}), StageConfig, errs.InvalidParams, "cannot be written as JSON"},
		"no transport binary": {transportErr("tcp", Spec{Mode: ModeSubprocess}), StageFind, errs.FileNotFound, "no file mooncake-plugin-transport-tcp"},
		"failing transport":   {transportErr("tcp", Spec{}), StageConfig, errs.Internal, "cannot make one"},
		"cancelled":           {cancelledErr, StageFind, errs.Internal, "context canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			var oe *OpenError
			require.ErrorAs(t, c.err, &oe)
			assert.Equal(t, c.stage, oe.Stage)
			assert.Equal(t, c.code, errs.CodeOf(c.err), c.err.Error())
			assert.ErrorContains(t, c.err, c.want)
			assert.ErrorContains(t, c.err, "plugin "+oe.ID.String())
		})
	}
	assert.Empty(t, c.Instances(), "what failed to open is not in use")
}

func TestClosedCatalogOpensNothing(t *testing.T) {
	c := catalog(t, []plugin.Factory{builtin("evict", "lru")}, faultyDir)
	p, err := c.OpenEvict(t.Context(), lru(), Spec{}, EvictOptions{})
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context(), nil))
	require.NoError(t, c.Close(t.Context()))
	assert.Empty(t, c.Instances())
	_, err = c.OpenEvict(t.Context(), lru(), Spec{}, EvictOptions{})
	assert.ErrorIs(t, err, errs.UnavailableInCurrentStatus.Err())
	_, err = c.OpenEvict(t.Context(), faultyEvict, Spec{}, EvictOptions{})
	assert.ErrorIs(t, err, errs.UnavailableInCurrentStatus.Err())
}

package relay

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// finish ends a generation that another one replaced.
func (r *rig) finish(ft *fake, gen *Generation) {
	r.Lost(gen)
	ft.Ended()
	r.Ended(gen)
}

// TestAGenerationThatEndedIsNotUsed: a generation may end between Enroll and Use. New work must
// not go to it, and the next generation must not be blocked.
func TestAGenerationThatEndedIsNotUsed(t *testing.T) {
	r := newRig(Options{})
	defer r.stop()
	ft := r.net.New(hooks{})
	require.NoError(t, ft.Start(t.Context(), nil))
	gen := r.Begin(ft, nil)
	require.NoError(t, r.Enroll(t.Context(), gen))
	ft.Ended()
	r.Ended(gen)
	r.Use(gen)
	_, err := r.Dial(t.Context(), r.peer.Endpoint())
	assert.ErrorContains(t, err, "started again", "there is no generation")
	assert.Nil(t, r.current())
	require.NoError(t, r.rise(t.Context()))
	assert.Equal(t, r.live.Endpoint(), r.Endpoint())
}

func TestNothingIsStartedAfterClose(t *testing.T) {
	r := New(Options{})
	require.True(t, r.spawn(func() {}))
	r.Close()
	assert.False(t, r.spawn(func() { t.Error("Close does not wait for it") }))
}

// TestRetireWaitsForPeers: an old generation serves until peers can find the new one, or until
// waiting has no point.
func TestRetireWaitsForPeers(t *testing.T) {
	const grace = 30 * time.Second
	for name, c := range map[string]struct {
		happens func(r *rig, old *Generation, giveUp func())
		after   time.Duration
	}{
		"peers know":         {func(r *rig, _ *Generation, _ func()) { r.Published(r.Endpoint()) }, 5 * time.Second},
		"the new one ended":  {func(r *rig, _ *Generation, _ func()) { r.live.Ended(); r.Ended(r.gen); r.gen = nil }, 5 * time.Second},
		"the old one ended":  {func(r *rig, old *Generation, _ func()) { r.Ended(old) }, 5 * time.Second},
		"caller gives up":    {func(_ *rig, _ *Generation, giveUp func()) { giveUp() }, 5 * time.Second},
		"peers do not learn": {func(*rig, *Generation, func()) {}, grace},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(Options{})
				defer r.stop()
				require.NoError(t, r.rise(t.Context()))
				oldT, old := r.follow(t, hooks{})
				ctx, giveUp := context.WithCancel(t.Context())
				defer giveUp()
				begun, took := time.Now(), make(chan time.Duration, 1)
				go func() {
					assert.NoError(t, r.Retire(ctx, old, grace), "nothing is in flight")
					took <- time.Since(begun)
				}()
				time.Sleep(5 * time.Second)
				assert.Empty(t, took, "too early")
				c.happens(r, old, giveUp)
				assert.Equal(t, c.after, <-took)
				r.finish(oldT, old)
			})
		})
	}
}

// TestRetireSaysWhatDoesNotEnd: operations in flight complete later all the same.
func TestRetireSaysWhatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Options{})
		defer r.stop()
		require.NoError(t, r.rise(t.Context()))
		p, id := r.open(t, make([]byte, 8))
		r.live.Hold(true)
		_, err := p.Submit([]transport.Op{read(1, id, 8)})
		require.NoError(t, err)
		oldT, old := r.follow(t, hooks{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		assert.Equal(t, errs.RPCTimeout, errs.CodeOf(r.Retire(ctx, old, time.Millisecond)))
		r.finish(oldT, old)
		assert.Len(t, reap(t, p, 1), 1)
		require.NoError(t, p.Close(t.Context()))
	})
}

// stubborn is a transport whose paths neither close nor end. The operations in flight complete when
// the process ends, and nothing follows.
type stubborn struct{ transport.Transport }

type stubbornPath struct{ transport.Path }

func (s stubborn) Dial(ctx context.Context, peer transport.Endpoint) (transport.Path, error) {
	p, err := s.Transport.Dial(ctx, peer)
	return stubbornPath{p}, err
}

func (stubbornPath) Close(context.Context) error {
	return errs.New(errs.RPCTimeout, "close", "no answer")
}

// TestLateCompletions: completions may arrive for a while after their process ended, and are not
// lost. The path does not wait for later ones.
func TestLateCompletions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Options{})
		defer r.stop()
		ft := r.net.New(hooks{})
		require.NoError(t, ft.Start(t.Context(), nil))
		gen := r.Begin(stubborn{ft}, nil)
		require.NoError(t, r.Enroll(t.Context(), gen))
		r.Use(gen)
		p, id := r.open(t, make([]byte, 8))
		ft.Hold(true)
		_, err := p.Submit([]transport.Op{read(1, id, 8)})
		require.NoError(t, err)
		ft.Die()
		r.Ended(gen)
		ended := time.Now()
		time.Sleep(endGrace / 2)
		ft.Ended() // This completes them.
		assert.Len(t, reap(t, p, 1), 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, p.Close(ctx))
		assert.Equal(t, endGrace, time.Since(ended))
	})
}

// told is a transport whose Endpoint and Changed a test controls.
type told struct {
	transport.Transport
	changed chan struct{}
	silent  bool
}

func (s *told) Changed() <-chan struct{} { return s.changed }

func (s *told) Endpoint() transport.Endpoint {
	if s.silent {
		return transport.Endpoint{}
	}
	return s.Transport.Endpoint()
}

// TestWhatAGenerationSaysOfItself: the relay forwards its changes. While the generation does not
// answer, the relay reports the endpoint that it had.
func TestWhatAGenerationSaysOfItself(t *testing.T) {
	r := newRig(Options{})
	defer r.stop()
	ft := r.net.New(hooks{})
	require.NoError(t, ft.Start(t.Context(), nil))
	s := &told{Transport: ft, changed: make(chan struct{})}
	gen := r.Begin(s, nil)
	require.NoError(t, r.Enroll(t.Context(), gen))
	r.Use(gen)
	<-r.Changed() // Use fires it.
	s.changed <- struct{}{}
	select {
	case <-r.Changed():
	case <-time.After(30 * time.Second):
		t.Fatal("the change was not forwarded")
	}
	s.silent = true
	assert.Equal(t, ft.Endpoint(), r.Endpoint())
	r.finish(ft, gen)
	assert.Equal(t, ft.Endpoint(), r.Endpoint())
}

// TestAnIDInUseIsNotAskedFor: the relay refuses an ID in use by itself, so the plugin cannot replace
// its key.
func TestAnIDInUseIsNotAskedFor(t *testing.T) {
	r := newRig(Options{})
	defer r.stop()
	require.NoError(t, r.rise(t.Context()))
	g := transport.Region{ID: 1, Mem: make([]byte, 8), FD: -1}
	_, err := r.Register(t.Context(), g)
	require.NoError(t, err)
	r.live.Hooks.Register = func(transport.Region) error {
		t.Error("the plugin was asked")
		return nil
	}
	_, err = r.Register(t.Context(), g)
	assert.ErrorContains(t, err, "the ID 1 is in use")
}

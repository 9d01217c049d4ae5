package relay

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/pluginhost/internal/faketransport"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// finish ends a life that another one took over from.
func (r *rig) finish(ft *faketransport.Transport, l *Life) {
	r.Lost(l)
	ft.Ended()
	r.Ended(l)
}

// TestALifeThatEndedIsNotUsed: it may end between Enroll and Use. What is new must not go to it, and
// the next one must be let in.
func TestALifeThatEndedIsNotUsed(t *testing.T) {
	r := newRig(Options{})
	defer r.stop()
	ft := r.net.New(faketransport.Hooks{})
	require.NoError(t, ft.Start(t.Context(), nil))
	l := r.Begin(ft, nil)
	require.NoError(t, r.Enroll(t.Context(), l))
	ft.Ended()
	r.Ended(l)
	r.Use(l)
	_, err := r.Dial(t.Context(), r.peer.Endpoint())
	assert.ErrorContains(t, err, "started again", "there is no life")
	assert.Nil(t, r.current())
	require.NoError(t, r.rise(t.Context()))
	assert.Equal(t, r.live.Endpoint(), r.Endpoint())
}

func TestNothingIsStartedAfterClose(t *testing.T) {
	r := New(Options{})
	require.True(t, r.spawn(func() {}))
	r.Close()
	assert.False(t, r.spawn(func() { t.Error("nobody waits for it") }))
}

// TestRetireWaitsForPeers: an old life serves until peers can find the new one, and no longer than
// that has a point.
func TestRetireWaitsForPeers(t *testing.T) {
	const grace = 30 * time.Second
	for name, c := range map[string]struct {
		happens func(r *rig, old *Life, giveUp func())
		after   time.Duration
	}{
		"peers know":         {func(r *rig, _ *Life, _ func()) { r.Published(r.Endpoint()) }, 5 * time.Second},
		"the new one ended":  {func(r *rig, _ *Life, _ func()) { r.live.Ended(); r.Ended(r.life); r.life = nil }, 5 * time.Second},
		"the old one ended":  {func(r *rig, old *Life, _ func()) { r.Ended(old) }, 5 * time.Second},
		"nobody waits":       {func(_ *rig, _ *Life, giveUp func()) { giveUp() }, 5 * time.Second},
		"peers do not learn": {func(*rig, *Life, func()) {}, grace},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(Options{})
				defer r.stop()
				require.NoError(t, r.rise(t.Context()))
				oldT, old := r.follow(t, faketransport.Hooks{})
				ctx, giveUp := context.WithCancel(t.Context())
				defer giveUp()
				begun, took := time.Now(), make(chan time.Duration, 1)
				go func() {
					assert.NoError(t, r.Retire(ctx, old, grace), "nothing is under way")
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

// TestRetireSaysWhatDoesNotEnd: and what is under way completes all the same, later.
func TestRetireSaysWhatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Options{})
		defer r.stop()
		require.NoError(t, r.rise(t.Context()))
		p, id := r.open(t, make([]byte, 8))
		r.live.Hold(true)
		_, err := p.Submit([]transport.Op{read(1, id, 8)})
		require.NoError(t, err)
		oldT, old := r.follow(t, faketransport.Hooks{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		assert.Equal(t, errs.RPCTimeout, errs.CodeOf(r.Retire(ctx, old, time.Millisecond)))
		r.finish(oldT, old)
		assert.Len(t, reap(t, p, 1), 1)
		require.NoError(t, p.Close(t.Context()))
	})
}

// stubborn is a transport whose paths neither close nor end: what they have under way completes with
// the process, and then nothing comes any more.
type stubborn struct{ transport.Transport }

type stubbornPath struct{ transport.Path }

func (s stubborn) Dial(ctx context.Context, peer transport.Endpoint) (transport.Path, error) {
	p, err := s.Transport.Dial(ctx, peer)
	return stubbornPath{p}, err
}

func (stubbornPath) Close(context.Context) error {
	return errs.New(errs.RPCTimeout, "close", "no answer")
}

// TestLastWords: what a process had completed may be handed over a while after it ended, and is not
// lost; what is not there by then is not waited for.
func TestLastWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Options{})
		defer r.stop()
		ft := r.net.New(faketransport.Hooks{})
		require.NoError(t, ft.Start(t.Context(), nil))
		l := r.Begin(stubborn{ft}, nil)
		require.NoError(t, r.Enroll(t.Context(), l))
		r.Use(l)
		p, id := r.open(t, make([]byte, 8))
		ft.Hold(true)
		_, err := p.Submit([]transport.Op{read(1, id, 8)})
		require.NoError(t, err)
		ft.Die()
		r.Ended(l)
		ended := time.Now()
		time.Sleep(lastWords / 2)
		ft.Ended() // This completes them.
		assert.Len(t, reap(t, p, 1), 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, p.Close(ctx))
		assert.Equal(t, lastWords, time.Since(ended))
	})
}

// told is a transport that says of itself what a test wants.
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

// TestWhatALifeSaysOfItself: that it changed is passed on; while it does not answer, its endpoint is
// the one that it had, not none.
func TestWhatALifeSaysOfItself(t *testing.T) {
	r := newRig(Options{})
	defer r.stop()
	ft := r.net.New(faketransport.Hooks{})
	require.NoError(t, ft.Start(t.Context(), nil))
	s := &told{Transport: ft, changed: make(chan struct{})}
	l := r.Begin(s, nil)
	require.NoError(t, r.Enroll(t.Context(), l))
	r.Use(l)
	<-r.Changed() // Of Use.
	s.changed <- struct{}{}
	select {
	case <-r.Changed():
	case <-time.After(30 * time.Second):
		t.Fatal("it was not passed on")
	}
	s.silent = true
	assert.Equal(t, ft.Endpoint(), r.Endpoint())
	r.finish(ft, l)
	assert.Equal(t, ft.Endpoint(), r.Endpoint())
}

// TestAnIDInUseIsNotAskedFor: whatever a plugin would say of it, the key that is known stays.
func TestAnIDInUseIsNotAskedFor(t *testing.T) {
	r := newRig(Options{})
	defer r.stop()
	require.NoError(t, r.rise(t.Context()))
	g := transport.Region{ID: 1, Mem: make([]byte, 8), FD: -1}
	_, err := r.Register(t.Context(), g)
	require.NoError(t, err)
	r.live.Hooks.Register = func(transport.Region) error {
		t.Error("it was asked")
		return nil
	}
	_, err = r.Register(t.Context(), g)
	assert.ErrorContains(t, err, "the ID 1 is in use")
}

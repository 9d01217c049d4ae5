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

// These tests are about calls that a change of the generation overtakes.

// carries checks that the path uses the current generation and has nothing open in the old one.
func (r *rig) carries(t *testing.T, p transport.Path, id transport.RemoteID, old *fake) {
	t.Helper()
	synctest.Wait()
	n, err := p.Submit([]transport.Op{read(1, id, 8)})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	assert.Equal(t, transport.OK, reap(t, p, 1)[1].Status)
	assert.Equal(t, 1, r.live.Open())
	assert.Zero(t, old.Open())
}

func TestAPathThatIsMadeWhileTheGenerationChanges(t *testing.T) {
	for name, next := range map[string]bool{"another": true, "none": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(Options{})
				defer r.stop()
				require.NoError(t, r.rise(t.Context()))
				key, err := r.peer.Register(t.Context(), transport.Region{ID: 1, Mem: make([]byte, 8), FD: -1, Access: transport.AccessRemote})
				require.NoError(t, err)
				gate := make(chan struct{})
				r.live.Hooks.Dial = func(transport.Endpoint) error { <-gate; return nil }
				made := make(chan transport.Path, 1)
				go func() {
					p, err := r.Dial(t.Context(), r.peer.Endpoint())
					assert.NoError(t, err)
					made <- p
				}()
				synctest.Wait()
				oldT, old := r.live, r.gen
				if next {
					r.follow(t, hooks{})
				} else {
					r.Lost(old)
					r.live, r.gen = nil, nil
				}
				close(gate)
				p := <-made
				synctest.Wait()
				if !next {
					assert.False(t, p.(*path).Up(), "there is no generation for it")
					assert.Zero(t, oldT.Open())
					require.NoError(t, r.rise(t.Context()))
					synctest.Wait()
				}
				id, err := p.Import(t.Context(), key)
				require.NoError(t, err)
				r.carries(t, p, id, oldT)
				require.NoError(t, p.Close(t.Context()))
				r.finish(oldT, old)
			})
		})
	}
}

func TestAKeyThatIsImportedWhileTheGenerationChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Options{})
		defer r.stop()
		require.NoError(t, r.rise(t.Context()))
		key, err := r.peer.Register(t.Context(), transport.Region{ID: 1, Mem: make([]byte, 8), FD: -1, Access: transport.AccessRemote})
		require.NoError(t, err)
		p, err := r.Dial(t.Context(), r.peer.Endpoint())
		require.NoError(t, err)
		gate := make(chan struct{})
		r.live.Hooks.Import = func(transport.Key) error { <-gate; return nil }
		imported := make(chan transport.RemoteID, 1)
		go func() {
			id, err := p.Import(t.Context(), key)
			assert.NoError(t, err)
			imported <- id
		}()
		synctest.Wait()
		oldT, old := r.follow(t, hooks{})
		synctest.Wait() // The path uses the new generation, which does not have the key.
		close(gate)
		r.carries(t, p, <-imported, oldT)
		require.NoError(t, p.Close(t.Context()))
		r.finish(oldT, old)
	})
}

// TestAPathThatIsClosedWhileItIsRenewed: nothing may stay open in the plugin, and no generation may
// stay in use.
func TestAPathThatIsClosedWhileItIsRenewed(t *testing.T) {
	for name, laid := range map[string]bool{"after the change": false, "before the change": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(Options{})
				defer r.stop()
				require.NoError(t, r.rise(t.Context()))
				p, _ := r.open(t, make([]byte, 8))
				gate := make(chan struct{})
				hooks := hooks{Dial: func(transport.Endpoint) error { <-gate; return nil }}
				oldT, old := r.live, r.gen
				if laid {
					ft := r.net.New(hooks)
					require.NoError(t, ft.Start(t.Context(), nil))
					gen := r.Begin(ft, nil)
					over := make(chan struct{})
					go func() {
						defer close(over)
						assert.NoError(t, r.Lay(t.Context(), gen))
					}()
					synctest.Wait()
					require.NoError(t, p.Close(t.Context()))
					close(gate)
					<-over
					require.NoError(t, r.Enroll(t.Context(), gen))
					r.Use(gen)
					r.live, r.gen = ft, gen
				} else {
					r.follow(t, hooks)
					synctest.Wait()
					require.NoError(t, p.Close(t.Context()))
					close(gate)
				}
				synctest.Wait()
				assert.Zero(t, r.live.Open())
				assert.Zero(t, oldT.Open())
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				assert.NoError(t, r.quiet(ctx, r.gen))
				r.finish(oldT, old)
			})
		})
	}
}

// slow is a transport whose Dial returns long after it has dialled.
type slow struct {
	transport.Transport
	gate chan struct{}
}

func (s slow) Dial(ctx context.Context, peer transport.Endpoint) (transport.Path, error) {
	p, err := s.Transport.Dial(ctx, peer)
	<-s.gate
	return p, err
}

// TestAGenerationThatEndsWhilePathsAreLaid: the relay does not keep the paths that it dialled.
func TestAGenerationThatEndsWhilePathsAreLaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Options{})
		defer r.stop()
		require.NoError(t, r.rise(t.Context()))
		p, err := r.Dial(t.Context(), r.peer.Endpoint())
		require.NoError(t, err)
		ft := r.net.New(hooks{})
		require.NoError(t, ft.Start(t.Context(), nil))
		s := slow{ft, make(chan struct{})}
		gen := r.Begin(s, nil)
		over := make(chan struct{})
		go func() {
			defer close(over)
			assert.NoError(t, r.Lay(t.Context(), gen))
		}()
		synctest.Wait()
		r.finish(ft, gen)
		close(s.gate)
		<-over
		synctest.Wait()
		assert.Zero(t, ft.Open())
		assert.True(t, p.(*path).Up())
		require.NoError(t, p.Close(t.Context()))
		assert.Zero(t, r.live.Open())
	})
}

// TestDeregisterAfterItsCallerGaveUp: a caller may give up while a new generation is being enrolled.
// The region must be deregistered all the same, and not stay with the plugin for ever.
func TestDeregisterAfterItsCallerGaveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Options{})
		defer r.stop()
		require.NoError(t, r.rise(t.Context()))
		_, err := r.Register(t.Context(), transport.Region{ID: 1, Mem: make([]byte, 8), FD: -1})
		require.NoError(t, err)
		ft := r.net.New(hooks{})
		require.NoError(t, ft.Start(t.Context(), nil))
		gen := r.Begin(ft, nil)
		require.NoError(t, r.Enroll(t.Context(), gen)) // Changes wait from here.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err = r.Deregister(ctx, 1)
		assert.Equal(t, errs.RPCTimeout, errs.CodeOf(err))
		assert.ErrorContains(t, err, "must not be used")
		oldT, old := r.live, r.gen
		r.Use(gen)
		r.live, r.gen = ft, gen
		synctest.Wait()
		assert.Empty(t, oldT.Regions())
		assert.Empty(t, ft.Regions())
		assert.ErrorIs(t, r.Deregister(t.Context(), 1), errs.InvalidParams.Err(), "it is over")
		r.finish(oldT, old)
	})
}

// TestDeregisterInAGenerationThatIsGoing: the region ends with the process. Until then peers may
// still reach it.
func TestDeregisterInAGenerationThatIsGoing(t *testing.T) {
	for name, goes := range map[string]bool{"it goes": true, "it stays": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(Options{})
				defer r.stop()
				require.NoError(t, r.rise(t.Context()))
				_, err := r.Register(t.Context(), transport.Region{ID: 1, Mem: make([]byte, 8), FD: -1})
				require.NoError(t, err)
				r.live.Hooks.Deregister = func(transport.RegionID) error { return errs.New(errs.RPCFail, "", "the pipe is broken") }
				begun, took := time.Now(), make(chan time.Duration, 1)
				go func() {
					err := r.Deregister(t.Context(), 1)
					if goes {
						assert.NoError(t, err)
					} else {
						assert.ErrorIs(t, err, errs.RPCFail.Err())
					}
					took <- time.Since(begun)
				}()
				time.Sleep(endGrace / 2)
				assert.Empty(t, took, "its process is still there")
				if goes {
					r.fall()
					assert.Equal(t, endGrace/2, <-took)
					return
				}
				assert.Equal(t, endGrace, <-took)
				r.live.Hooks.Deregister = nil
				assert.NoError(t, r.Deregister(t.Context(), 1), "it may be tried again")
				assert.Empty(t, r.live.Regions())
			})
		})
	}
}

// TestAGenerationThatEndsBeforeItIsUsed: its inner paths end with it, so that the next generation
// gets its own.
func TestAGenerationThatEndsBeforeItIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Options{})
		defer r.stop()
		require.NoError(t, r.rise(t.Context()))
		p, id := r.open(t, make([]byte, 8))
		ft := r.net.New(hooks{})
		require.NoError(t, ft.Start(t.Context(), nil))
		gen := r.Begin(ft, nil)
		require.NoError(t, r.Lay(t.Context(), gen))
		assert.Equal(t, 1, ft.Open())
		r.finish(ft, gen)
		synctest.Wait()
		assert.Zero(t, ft.Open())
		r.carries(t, p, id, ft)
		require.NoError(t, p.Close(t.Context()))
	})
}

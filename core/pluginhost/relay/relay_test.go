package relay

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

func read(id uint64, remote transport.RemoteID, n int) transport.Op {
	return transport.Op{ID: id, Kind: transport.Read, Local: make([]byte, n), Remote: remote}
}

func TestNothingIsLostWhenAGenerationEnds(t *testing.T) {
	r := newRig(Options{})
	defer r.stop()
	require.NoError(t, r.rise(t.Context()))
	mem := bytes.Repeat([]byte{7}, 64)
	p, id := r.open(t, mem)

	r.live.Hold(true)
	ops := []transport.Op{read(1, id, 8), read(2, id, 8), {ID: 3, Kind: transport.Write, Local: make([]byte, 8), Remote: id}}
	n, err := p.Submit(ops)
	require.NoError(t, err)
	require.Equal(t, 3, n)
	waiting := make(chan map[uint64]transport.Completion)
	go func() { waiting <- reap(t, p, 3) }() // It waits on the old inner path when the process ends.
	r.fall()
	for _, c := range <-waiting {
		assert.Equal(t, transport.Failed, c.Status)
		assert.Equal(t, errs.ClassTransientPath, c.Class())
	}

	_, err = p.Submit(ops)
	assert.Equal(t, errs.ClassTransientPath, errs.ClassOf(err), "no generation: refused at once, for another path")
	assert.NotErrorIs(t, err, transport.ErrPathClosed)
	assert.False(t, p.(*path).Up())
	r.dead = true
	_, err = p.Submit(ops)
	assert.Equal(t, errs.ClassLocalDevice, errs.ClassOf(err), "no generation, and none will come")
	r.dead = false

	require.NoError(t, r.rise(t.Context()))
	eventually(t, "the path is renewed", p.(*path).Up)
	n, err = p.Submit(ops[:2])
	require.NoError(t, err)
	require.Equal(t, 2, n)
	for _, c := range reap(t, p, 2) {
		assert.Equal(t, transport.OK, c.Status)
	}
	assert.Equal(t, mem[:8], ops[0].Local, "the number of the key is still good")
	assert.Equal(t, id, ops[0].Remote, "the caller's operations are unchanged")
	require.NoError(t, p.Close(t.Context()))
	_, err = p.Reap(t.Context(), make([]transport.Completion, 1))
	assert.ErrorIs(t, err, transport.ErrPathClosed)
	_, err = p.Submit(ops)
	assert.ErrorIs(t, err, transport.ErrPathClosed)
	_, err = p.Import(t.Context(), nil)
	assert.ErrorIs(t, err, transport.ErrPathClosed)
	assert.Zero(t, r.live.Open())
}

func TestRegionsAreReplayedInOrder(t *testing.T) {
	r := newRig(Options{})
	defer r.stop()
	ctx := t.Context()
	g := func(id transport.RegionID) transport.Region {
		return transport.Region{ID: id, Mem: make([]byte, 8), FD: -1}
	}
	_, err := r.Register(ctx, g(9))
	assert.Equal(t, errs.RPCFail, errs.CodeOf(err), "no generation")
	require.NoError(t, r.rise(ctx))
	r.Upstream().Join("me")
	for _, id := range []transport.RegionID{5, 3, 8, 1} {
		_, err := r.Register(ctx, g(id))
		require.NoError(t, err)
	}
	_, err = r.Register(ctx, g(8))
	assert.ErrorIs(t, err, errs.InvalidParams.Err())
	require.NoError(t, r.Deregister(ctx, 3))
	assert.ErrorIs(t, r.Deregister(ctx, 3), errs.InvalidParams.Err())
	old, err := r.Key(8)
	require.NoError(t, err)
	before := r.Endpoint()
	<-r.Changed()

	r.fall()
	<-r.Changed()
	assert.Equal(t, before, r.Endpoint(), "the last one")
	assert.EqualValues(t, before.Incarnation, r.Upstream().r.endpoint.Incarnation)
	_, err = r.Key(8)
	assert.Equal(t, errs.ClassTransientPeer, errs.ClassOf(err))
	_, err = r.Key(77)
	assert.ErrorIs(t, err, errs.InvalidParams.Err())
	_, err = r.Dial(ctx, r.peer.Endpoint())
	assert.Equal(t, errs.ClassTransientPath, errs.ClassOf(err))
	require.NoError(t, r.Deregister(ctx, 5), "no generation has it")

	require.NoError(t, r.rise(ctx))
	<-r.Changed()
	assert.Equal(t, []transport.RegionID{8, 1}, r.live.Regions())
	name, times := r.live.Joined()
	assert.Equal(t, "me", name)
	assert.Equal(t, 1, times)
	renewed, err := r.Key(8)
	require.NoError(t, err)
	assert.NotEqual(t, old, renewed)
	assert.NotEqual(t, before.Incarnation, r.Endpoint().Incarnation)
	assert.Equal(t, int(r.Endpoint().Incarnation), r.Upstream().Segment().DataPort)
}

func TestAGenerationThatCannotResyncIsNotUsed(t *testing.T) {
	r := newRig(Options{})
	defer r.stop()
	ctx := t.Context()
	require.NoError(t, r.rise(ctx))
	_, err := r.Register(ctx, transport.Region{ID: 1, Mem: make([]byte, 8), FD: -1})
	require.NoError(t, err)
	mem := make([]byte, 8)
	p, id := r.open(t, mem)
	before := r.Endpoint()

	broken := errs.New(errs.NoAvailableHandle, "", "no such device")
	for name, h := range map[string]hooks{
		"register": {Register: func(transport.Region) error { return broken }},
		"dial":     {Dial: func(transport.Endpoint) error { return broken }},
		"import":   {Import: func(transport.Key) error { return broken }},
	} {
		_, err = r.swap(ctx, h)
		assert.ErrorIs(t, err, broken, name)
		assert.Equal(t, before, r.Endpoint(), name)
		_, err = p.Submit([]transport.Op{read(1, id, 8)})
		require.NoError(t, err, name)
		assert.Equal(t, transport.OK, reap(t, p, 1)[1].Status, name)
	}
	same := r.Begin(r.live, nil)
	assert.ErrorContains(t, r.Enroll(ctx, same), "incarnation")
	r.Lost(same)
	r.Ended(same)
	_, err = r.Register(ctx, transport.Region{ID: 2, Mem: make([]byte, 8), FD: -1})
	require.NoError(t, err, "no call holds the order")
	require.NoError(t, p.Close(ctx))
}

func TestChangeWithoutAGap(t *testing.T) {
	r := newRig(Options{})
	defer r.stop()
	ctx := t.Context()
	require.NoError(t, r.rise(ctx))
	_, err := r.Register(ctx, transport.Region{ID: 1, Mem: make([]byte, 8), FD: -1})
	require.NoError(t, err)
	p, id := r.open(t, bytes.Repeat([]byte{3}, 8))
	old := r.live
	old.Hold(true)
	_, err = p.Submit([]transport.Op{read(1, id, 8), read(2, id, 8)})
	require.NoError(t, err)

	done, err := r.swap(ctx, hooks{})
	require.NoError(t, err)
	op := read(3, id, 8)
	n, err := p.Submit([]transport.Op{op})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	assert.Equal(t, transport.OK, reap(t, p, 1)[3].Status, "the new one does not wait for the old one")
	assert.Equal(t, byte(3), op.Local[7])
	r.Published(transport.Endpoint{Incarnation: 99})
	old.Hold(false)
	got := reap(t, p, 2)
	time.Sleep(20 * time.Millisecond) // Time for a premature end.
	select {
	case <-done:
		t.Fatal("peers do not know the new one")
	default:
	}
	assert.Equal(t, []transport.RegionID{1}, old.Regions(), "peers may still use it")
	r.Published(r.Endpoint())
	assert.Equal(t, transport.OK, got[1].Status)
	assert.Equal(t, transport.OK, got[2].Status)
	require.NoError(t, <-done)
	assert.Zero(t, old.Open())
	require.NoError(t, r.Deregister(ctx, 1))
	assert.Empty(t, r.live.Regions())
	require.NoError(t, p.Close(ctx))
}

// TestAPathThatCannotBeRenewed: operations fail with the class of the reason until the path is renewed.
func TestAPathThatCannotBeRenewed(t *testing.T) {
	r := newRig(Options{})
	defer r.stop()
	ctx := t.Context()
	require.NoError(t, r.rise(ctx))
	p, id := r.open(t, make([]byte, 8))
	r.fall()

	refuse := make(chan error, 1)
	refuse <- errs.WithClass(errs.ClassTransientPeer, "", errors.New("its peer restarted"))
	hook := func() error {
		select {
		case err := <-refuse:
			refuse <- err
			return err
		default:
			return nil
		}
	}
	live := r.net.New(hooks{Import: func(transport.Key) error { return hook() }})
	require.NoError(t, live.Start(ctx, nil))
	gen := r.Begin(live, nil)
	require.NoError(t, r.Enroll(ctx, gen))
	r.Use(gen)
	r.live, r.gen = live, gen
	eventually(t, "the reason is known", func() bool {
		_, err := p.Submit([]transport.Op{read(1, id, 8)})
		return errs.ClassOf(err) == errs.ClassTransientPeer
	})
	_, err := p.Submit([]transport.Op{read(1, id+1, 8)})
	assert.Equal(t, errs.ClassPermanent, errs.ClassOf(err), "never imported")
	<-refuse
	eventually(t, "it is renewed", func() bool {
		_, err := p.Submit([]transport.Op{read(1, id, 8)})
		return err == nil
	})
	assert.Equal(t, transport.OK, reap(t, p, 1)[1].Status)
	require.NoError(t, p.Close(ctx))
}

func TestReapEndsWithItsContext(t *testing.T) {
	r := newRig(Options{})
	defer r.stop()
	require.NoError(t, r.rise(t.Context()))
	p, id := r.open(t, make([]byte, 8))
	for range 3 * maxWaits {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, err := p.Reap(ctx, make([]transport.Completion, 1))
			ended <- err
		}()
		cancel()
		assert.ErrorIs(t, <-ended, context.Canceled)
	}
	r.fall()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := p.Reap(ctx, make([]transport.Completion, 1))
	assert.ErrorIs(t, err, context.Canceled)
	n, err := p.Reap(ctx, nil)
	assert.NoError(t, err)
	assert.Zero(t, n)
	_, err = p.Submit([]transport.Op{read(1, id, 1)})
	assert.Error(t, err)
	require.NoError(t, p.Close(t.Context()))
}

// keeper is a transport whose paths hold a reaper up after it took completions, until letGo is
// closed.
type keeper struct {
	transport.Transport
	took, letGo chan struct{}
}

type keptPath struct {
	transport.Path
	k keeper
}

func (k keeper) Dial(ctx context.Context, peer transport.Endpoint) (transport.Path, error) {
	p, err := k.Transport.Dial(ctx, peer)
	return keptPath{p, k}, err
}

func (p keptPath) Reap(ctx context.Context, dst []transport.Completion) (int, error) {
	n, err := p.Path.Reap(ctx, dst)
	if n > 0 {
		p.k.took <- struct{}{}
		<-p.k.letGo
	}
	return n, err
}

// TestRetireWhenAReaperTookTheLastCompletion: a reaper that waited before the change may take the
// last completion. Retire must notice that nothing is in flight any more.
func TestRetireWhenAReaperTookTheLastCompletion(t *testing.T) {
	r := newRig(Options{})
	defer r.stop()
	ft := r.net.New(hooks{})
	require.NoError(t, ft.Start(t.Context(), nil))
	k := keeper{ft, make(chan struct{}, 1), make(chan struct{})}
	old := r.Begin(k, nil)
	require.NoError(t, r.Enroll(t.Context(), old))
	r.Use(old)
	p, id := r.open(t, make([]byte, 8))
	_, err := p.Submit([]transport.Op{read(1, id, 8)})
	require.NoError(t, err)
	reaped := make(chan map[uint64]transport.Completion)
	go func() { reaped <- reap(t, p, 1) }()
	<-k.took
	require.NoError(t, r.rise(t.Context()))
	eventually(t, "the path uses the new generation", func() bool {
		gp := p.(*path)
		gp.gate.RLock()
		defer gp.gate.RUnlock()
		return gp.inner != nil && gp.inner.gen != old
	})
	retired := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	go func() { retired <- r.Retire(ctx, old, time.Millisecond) }()
	// The drain waits on the old inner path by now, or will find nothing in flight; both must work.
	time.Sleep(20 * time.Millisecond)
	close(k.letGo)
	assert.Len(t, <-reaped, 1)
	assert.NoError(t, <-retired)
	require.NoError(t, p.Close(t.Context()))
	ft.Ended()
	r.Ended(old)
}

// TestAnOpenPathEndsWithTheRelay: the reaper of a path that was not closed learns when no more
// completions follow, but first gets those of the operations in flight.
func TestAnOpenPathEndsWithTheRelay(t *testing.T) {
	r := newRig(Options{})
	require.NoError(t, r.rise(t.Context()))
	p, id := r.open(t, make([]byte, 64))
	r.live.Hold(true)
	n, err := p.Submit([]transport.Op{read(1, id, 8)})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	type result struct {
		n   int
		err error
	}
	results := make(chan result)
	go func() { // It waits on the inner path, then for another one, then for none.
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		for range 2 {
			n, err := p.Reap(ctx, make([]transport.Completion, 2))
			results <- result{n, err}
		}
	}()
	r.fall()
	first := <-results
	require.NoError(t, first.err)
	require.Equal(t, 1, first.n)
	r.stop()
	last := <-results
	require.Zero(t, last.n)
	require.ErrorIs(t, last.err, transport.ErrPathClosed)
	require.NoError(t, p.Close(t.Context()))
}

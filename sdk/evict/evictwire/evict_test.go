package evictwire

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/internal/wiretest"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	evictv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/evict/v1"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

func inserts(n int) []evict.Event {
	out := make([]evict.Event, n)
	for i := range out {
		out[i] = evict.Event{Op: evict.Insert, ID: evict.ID(i + 1), Size: 10, Parent: evict.ID(i)}
	}
	return out
}

func TestEvictLargeBatches(t *testing.T) {
	const n = 100_000
	p := &fifo{}
	e := dialFifo(t, p, wire.ClientOptions{})
	ctx := t.Context()
	require.NoError(t, e.Record(ctx, inserts(n)))
	st, err := e.Stats(ctx)
	require.NoError(t, err)
	assert.EqualValues(t, n, st.Objects)

	got, err := e.Propose(ctx, make([]evict.Candidate, 0, n), 1<<60)
	require.NoError(t, err)
	require.Len(t, got, n)
	verdicts := make([]evict.Verdict, n)
	for i, c := range got {
		require.Equal(t, evict.Candidate{ID: evict.ID(i + 1), Size: 10}, c, "order is kept")
		verdicts[i] = evict.Verdict{ID: c.ID, Evicted: i%4 != 0}
	}
	require.NoError(t, e.Resolve(ctx, verdicts))
	st, err = e.Stats(ctx)
	require.NoError(t, err)
	assert.Equal(t, evict.Stats{Objects: n / 4}, st)
}

func TestProposeKeepsToItsBounds(t *testing.T) {
	e := dialFifo(t, &fifo{}, wire.ClientOptions{})
	ctx := t.Context()
	require.NoError(t, e.Record(ctx, inserts(10)))

	prefix := []evict.Candidate{{ID: 99}}
	got, err := e.Propose(ctx, append(make([]evict.Candidate, 0, 10), prefix...), 25)
	require.NoError(t, err)
	assert.Equal(t, []evict.Candidate{{ID: 99}, {ID: 1, Size: 10}, {ID: 2, Size: 10}, {ID: 3, Size: 10}}, got, "appends until the bytes add up")

	got, err = e.Propose(ctx, make([]evict.Candidate, 0, 2), 1<<40)
	require.NoError(t, err)
	assert.Len(t, got, 2, "the capacity bounds")

	got, err = e.Propose(ctx, prefix[:1:1], 1<<40)
	require.NoError(t, err)
	assert.Equal(t, prefix, got, "no capacity, no proposal")
}

// sized is a fifo that hears of capacities, and of how many events came before each.
type sized struct {
	*fifo
	heard [][2]uint64
}

func (s *sized) SetCapacity(_ context.Context, bytes uint64) error {
	s.heard = append(s.heard, [2]uint64{bytes, uint64(s.events)})
	return s.fail
}

// TestCapacity: a policy hears of each capacity in order with the events, and one that has no use for it goes on.
func TestCapacity(t *testing.T) {
	p := &sized{fifo: &fifo{proposed: map[evict.ID]uint64{}}}
	for name, policy := range map[string]evict.Policy{"sized": p, "not sized": &fifo{proposed: map[evict.ID]uint64{}}} {
		t.Run(name, func(t *testing.T) {
			f := evict.Define(testManifest(), func() *plugin.NoConfig { return &plugin.NoConfig{} },
				func(*plugin.NoConfig) (evict.Policy, error) { return policy, nil })
			c, err := wiretest.Connect(t, Kind().Descriptor(), f, wire.ServerOptions{}, nil)
			require.NoError(t, err)
			e := NewClient(c.Conn, wire.ClientOptions{ID: testManifest().ID})
			require.NoError(t, e.Configure(t.Context(), 1, nil))
			through := Kind().Wrap(Kind().Route(e, func(_ context.Context, _ string, call func(evict.Policy) error) error { return call(e) }), e)
			for i, bytes := range []uint64{0, 1 << 40, 1 << 20} {
				require.NoError(t, evict.SetCapacity(t.Context(), through, bytes))
				require.NoError(t, through.Record(t.Context(), inserts(i+1)))
			}
			st, err := through.Stats(t.Context())
			require.NoError(t, err)
			assert.EqualValues(t, 6, st.Objects)
		})
	}
	assert.Equal(t, [][2]uint64{{0, 0}, {1 << 40, 1}, {1 << 20, 3}}, p.heard)

	p.fail = errs.New(errs.NoAvailableHandle, "", "full")
	s := &server{object: func() (evict.Policy, error) { return p, nil }}
	_, err := s.Record(t.Context(), &evictv1.RecordRequest{Capacity: new(uint64)})
	assert.ErrorIs(t, wire.FromStatus("x", err), errs.NoAvailableHandle.Err())
}

func TestPolicyErrorKeepsItsCode(t *testing.T) {
	p := &fifo{fail: errs.WithClass(errs.ClassLocalDevice, "fifo: record", errs.New(errs.NoAvailableHandle, "", "full"))}
	e := dialFifo(t, p, wire.ClientOptions{})
	err := e.Record(t.Context(), inserts(1))
	assert.ErrorIs(t, err, errs.NoAvailableHandle.Err())
	assert.Equal(t, errs.ClassLocalDevice, errs.ClassOf(err))
	assert.ErrorContains(t, err, "evict/fifo: record: fifo: record")
}

func TestHungPolicyTimesOut(t *testing.T) {
	p := &fifo{gate: make(chan struct{})}
	e := dialFifo(t, p, wire.ClientOptions{Timeout: time.Second})
	_, err := e.Propose(context.Background(), make([]evict.Candidate, 0, 4), 1)
	assert.ErrorIs(t, err, errs.RPCTimeout.Err())
	assert.Equal(t, errs.ClassTransientPeer, errs.ClassOf(err))
	assert.ErrorContains(t, err, "did not answer within 1s")
	close(p.gate)
}

// TestAbandonedProposalsAreSpared checks that a caller that stops waiting leaves no objects
// proposed that are never resolved.
func TestAbandonedProposalsAreSpared(t *testing.T) {
	p := &fifo{gate: make(chan struct{})}
	e := dialFifo(t, p, wire.ClientOptions{})
	require.NoError(t, e.Record(t.Context(), inserts(5)))

	ctx, cancel := context.WithCancel(t.Context())
	errc := make(chan error)
	go func() {
		_, err := e.Propose(ctx, make([]evict.Candidate, 0, 5), 1000)
		errc <- err
	}()
	cancel()
	err := <-errc
	assert.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, errs.RPCFail, errs.CodeOf(err))
	close(p.gate)
	require.Eventually(t, func() bool {
		st, err := e.Stats(t.Context())
		return err == nil && st == evict.Stats{Objects: 5}
	}, 30*time.Second, time.Millisecond)
}

func TestLostConnection(t *testing.T) {
	p := &fifo{gate: make(chan struct{}), entered: make(chan struct{})}
	c := dial(t, p)
	e := NewClient(c.Conn, wire.ClientOptions{})
	require.NoError(t, e.Configure(t.Context(), 1, nil))
	errc := make(chan error)
	go func() {
		_, err := e.Propose(t.Context(), make([]evict.Candidate, 0, 5), 1000)
		errc <- err
	}()
	<-p.entered
	c.Server.Stop()
	err := <-errc
	assert.ErrorIs(t, err, errs.RPCFail.Err())
	assert.Equal(t, errs.ClassTransientPeer, errs.ClassOf(err))
	close(p.gate)
	assert.ErrorIs(t, e.Record(t.Context(), inserts(1)), errs.RPCFail.Err())
	assert.NoError(t, e.Record(t.Context(), nil), "nothing to record needs no plugin")
}

func TestMalformedEvictMessages(t *testing.T) {
	one, two := make([]uint64, 1), make([]uint64, 2)
	for name, m := range map[string]*evictv1.RecordRequest{
		"ids short":     {Ops: []byte{1, 1}, Ids: one, Sizes: two, Parents: two},
		"sizes long":    {Ops: []byte{1}, Ids: one, Sizes: two, Parents: one},
		"parents short": {Ops: []byte{1}, Ids: one, Sizes: one},
		"prints long":   {Ops: []byte{1}, Ids: one, Sizes: one, Parents: one, Fingerprints: two},
		"op 0":          {Ops: []byte{0}, Ids: one, Sizes: one, Parents: one},
		"op 4":          {Ops: []byte{4}, Ids: one, Sizes: one, Parents: one},
		"too many":      encodeEvents(inserts(maxEvents + 1)),
	} {
		_, err := decodeEvents(m)
		assert.ErrorIs(t, err, errs.InvalidParams.Err(), name)
	}
	_, err := decodeVerdicts(&evictv1.ResolveRequest{Ids: two, Evicted: []byte{1}})
	assert.ErrorIs(t, err, errs.InvalidParams.Err())
	_, err = decodeVerdicts(&evictv1.ResolveRequest{Ids: one, Evicted: []byte{2}})
	assert.ErrorIs(t, err, errs.InvalidParams.Err())
	_, err = appendCandidates(nil, &evictv1.ProposeResponse{Ids: two, Sizes: one}, 5)
	assert.ErrorIs(t, err, errs.InvalidParams.Err())
	_, err = appendCandidates(nil, &evictv1.ProposeResponse{Ids: two, Sizes: two}, 1)
	assert.ErrorIs(t, err, errs.InvalidParams.Err(), "more than was asked for")
}

func TestServerRefusesOversizedProposal(t *testing.T) {
	e := NewClient(dial(t, &fifo{}).Conn, wire.ClientOptions{})
	require.NoError(t, e.Configure(t.Context(), 1, nil))
	_, err := e.rpc.Propose(t.Context(), &evictv1.ProposeRequest{Bytes: 1, MaxCandidates: 1 << 31})
	assert.ErrorIs(t, wire.FromStatus("x", err), errs.InvalidParams.Err())
	require.NoError(t, errors.Join(e.Record(t.Context(), inserts(1))), "and goes on")
}

// TestServerTakesBackWhatNobodyHearsOf: the caller's time ran out while the policy proposed.
func TestServerTakesBackWhatNobodyHearsOf(t *testing.T) {
	late, cancel := context.WithCancel(t.Context())
	cancel()
	p := &fifo{proposed: map[evict.ID]uint64{}}
	require.NoError(t, p.Record(late, inserts(3)))
	es := &server{object: func() (evict.Policy, error) { return p, nil }}
	_, err := es.Propose(late, &evictv1.ProposeRequest{Bytes: 100, MaxCandidates: 3})
	assert.Error(t, err)
	st, err := p.Stats(late)
	require.NoError(t, err)
	assert.Equal(t, evict.Stats{Objects: 3}, st)
}

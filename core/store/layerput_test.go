package store_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/client"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// TestStartOfExistingKey: no session starts for a key that exists or is being written.
func TestStartOfExistingKey(t *testing.T) {
	p := newPool(t, nil)
	p.member("a:1", memberOptions{segments: []uint64{segment}})
	c, d := p.member("c:1", memberOptions{}), p.member("d:1", memberOptions{})
	ctx := t.Context()
	require.NoError(t, c.Put(ctx, "there", []byte("v"), one))
	got := c.StartPuts(ctx, []string{"there", "new", "", "new", "empty", "big", "huge"}, []uint64{1, 4, 1, 4, 0, segment / 2, segment * 3 / 4}, one, nil)
	require.Equal(t, []errs.Code{errs.ObjectAlreadyExists, errs.OK, errs.InvalidParams, errs.ObjectAlreadyExists, errs.InvalidParams, errs.OK, errs.NoAvailableHandle}, codes(got))
	require.Equal(t, errs.ObjectAlreadyExists, errs.CodeOf(d.StartPuts(ctx, []string{"new"}, []uint64{4}, one, nil)[0]))
	up := one
	up.Upsert = true
	require.Equal(t, errs.ObjectAlreadyExists, errs.CodeOf(c.StartPuts(ctx, []string{"new"}, []uint64{4}, up, nil)[0]), "by this user")
	require.Equal(t, errs.InvalidParams, errs.CodeOf(c.PutRanges(ctx, []store.Ranges{write("there", 0, []byte("x"))})[0].Err))
	require.NoError(t, c.PutRanges(ctx, []store.Ranges{write("new", 0, []byte("full"))})[0].Err)
	require.Equal(t, []errs.Code{errs.InvalidParams, errs.OK, errs.OK}, codes(c.EndPuts(ctx, []string{"there", "new", "new"})))
	putOne(t, c, "there", []byte("replaced"), up)
	for k, v := range map[string]string{"there": "replaced", "new": "full"} {
		b, err := d.Get(ctx, k)
		require.NoError(t, err)
		require.Equal(t, v, string(b))
	}
	require.NoError(t, c.RevokePuts(ctx, []string{"big"})[0])
	require.NoError(t, c.StartPuts(ctx, []string{"huge"}, []uint64{segment * 3 / 4}, one, nil)[0], "a start that failed left nothing, and one that was revoked")
}

// TestIncompletePut: a put with gaps is refused, and its space is free for others.
func TestIncompletePut(t *testing.T) {
	p := newPool(t, nil)
	p.member("a:1", memberOptions{segments: []uint64{1 << 20}})
	c := p.member("c:1", memberOptions{})
	ctx, value := t.Context(), content("k", 700_000)
	for _, gap := range [][2]int{{0, 1}, {350_000, 350_001}, {699_999, 700_000}} {
		require.NoError(t, c.StartPuts(ctx, []string{"k"}, []uint64{700_000}, one, nil)[0])
		w := store.Ranges{Key: "k", Fragments: []store.Fragment{{Offset: uint64(gap[1]), Mem: value[gap[1]:]}, {Mem: value[:gap[0]]}}}
		require.NoError(t, c.PutRanges(ctx, []store.Ranges{w})[0].Err)
		err := c.EndPuts(ctx, []string{"k"})[0]
		require.Equal(t, errs.InvalidParams, errs.CodeOf(err))
		require.ErrorContains(t, err, "not all of its 700000 bytes")
		there, err := c.Exist(ctx, "k")
		require.NoError(t, err)
		require.False(t, there)
	}
	// Written twice: complete, and the checksums are those of what is stored.
	require.NoError(t, c.StartPuts(ctx, []string{"k"}, []uint64{700_000}, one, nil)[0])
	for _, w := range []store.Ranges{write("k", 1, value[1:]), write("k", 0, value[:400_000])} {
		require.NoError(t, c.PutRanges(ctx, []store.Ranges{w})[0].Err)
	}
	require.NoError(t, c.EndPuts(ctx, []string{"k"})[0])
	require.Equal(t, crcOf(value), c.Query(ctx, []string{"k"})[0].Value.Checksum)
	got, err := c.Get(ctx, "k")
	require.NoError(t, err)
	require.Equal(t, value, got)
}

// TestFailedWriteSpoilsItsObjectAlone: the others of the call are put.
func TestFailedWriteSpoilsItsObjectAlone(t *testing.T) {
	for _, quarantine := range []bool{false, true} {
		p := newPool(t, nil)
		p.member("a:1", memberOptions{segments: []uint64{segment}})
		c := p.member("c:1", memberOptions{})
		ctx, keys := t.Context(), []string{"good", "bad"}
		b := p.member("b:1", memberOptions{segments: []uint64{segment}})
		for i, k := range keys {
			on := one
			on.PreferredSegments = []string{[]string{"a:1", "b:1"}[i]}
			require.NoError(t, c.StartPuts(ctx, []string{k}, []uint64{2000}, on, nil)[0])
		}
		c.wire.SetHook(func(e memtransport.Event) memtransport.Fault {
			if e.To != b.name {
				return memtransport.Fault{}
			}
			return memtransport.Fault{Err: errCut, Partial: true, Quarantine: quarantine}
		})
		half := func(at int) []model.Result[int] {
			return c.PutRanges(ctx, []store.Ranges{write("good", at, content("good", 2000)[at:at+1000]), write("bad", at, content("bad", 2000)[at:at+1000])})
		}
		got := half(0)
		require.NoError(t, got[0].Err)
		require.Equal(t, errs.TransferFail, errs.CodeOf(got[1].Err))
		require.Zero(t, got[1].Value)
		c.wire.SetHook(nil)
		got = half(1000)
		require.NoError(t, got[0].Err)
		require.Equal(t, errs.TransferFail, errs.CodeOf(got[1].Err), "it cannot be completed any more")
		require.Equal(t, errs.TransferFail, errs.CodeOf(c.PutRanges(ctx, []store.Ranges{write("bad", 0, content("bad", 2000))})[0].Err))
		asked := p.tally()
		require.Equal(t, []errs.Code{errs.OK, errs.TransferFail}, codes(c.EndPuts(ctx, keys)))
		require.NoError(t, c.RevokePuts(ctx, keys[1:])[0], "connectors revoke what they could not end")
		require.Equal(t, map[string]int{"PutEnd": 1, "PutRevoke": 1}, asked.take(), "a session is not begun again")
		require.Zero(t, c.count(t, "mooncake_client_puts_unrevoked_total"))
		read, err := c.Get(ctx, "good")
		require.NoError(t, err)
		require.Equal(t, content("good", 2000), read)
	}
}

// TestEndWithoutAnswer: the session stays, takes no writes, and is ended or revoked later.
func TestEndWithoutAnswer(t *testing.T) {
	for _, revoke := range []bool{false, true} {
		p := newPool(t, nil)
		p.member("a:1", memberOptions{segments: []uint64{segment}})
		c := p.member("c:1", memberOptions{client: func(c *client.Config) { c.FinishTimeout = 300 * time.Millisecond }})
		ctx, keys := t.Context(), []string{"k"}
		require.NoError(t, c.StartPuts(ctx, keys, []uint64{5}, one, nil)[0])
		require.NoError(t, c.PutRanges(ctx, []store.Ranges{write("k", 0, []byte("value"))})[0].Err)
		var away atomic.Bool
		away.Store(true)
		p.master.setHook(func(k call) error {
			if (k.name == "PutEnd" || k.name == "PutRevoke") && away.Load() {
				return errDown
			}
			return nil
		})
		end := c.EndPuts
		if revoke {
			end = c.RevokePuts
		}
		require.Equal(t, errs.RPCFail, errs.CodeOf(end(ctx, keys)[0]))
		require.Equal(t, errs.InvalidParams, errs.CodeOf(c.PutRanges(ctx, []store.Ranges{write("k", 0, []byte("value"))})[0].Err), "it may be readable")
		require.Equal(t, errs.ObjectAlreadyExists, errs.CodeOf(c.StartPuts(ctx, keys, []uint64{5}, one, nil)[0]))
		away.Store(false)
		require.Eventually(t, func() bool { return !c.Health().Down }, 30*time.Second, time.Millisecond)
		require.NoError(t, end(ctx, keys)[0])
		there, err := c.Exist(ctx, "k")
		require.NoError(t, err)
		require.Equal(t, !revoke, there)
	}
}

// TestEndWaitsForWrites: an object is not made readable while it is written.
func TestEndWaitsForWrites(t *testing.T) {
	p := newPool(t, nil)
	p.member("a:1", memberOptions{segments: []uint64{segment}})
	c := p.member("c:1", memberOptions{})
	ctx := t.Context()
	require.NoError(t, c.StartPuts(ctx, []string{"k"}, []uint64{5}, one, nil)[0])
	writing, ending := make(chan struct{}), make(chan struct{})
	c.wire.SetHook(func(e memtransport.Event) memtransport.Fault {
		if e.Kind == transport.Write {
			close(writing)
			<-ending
		}
		return memtransport.Fault{}
	})
	var wrote model.Result[int]
	var wg sync.WaitGroup
	wg.Go(func() { wrote = c.PutRanges(ctx, []store.Ranges{write("k", 0, []byte("value"))})[0] })
	<-writing
	ended := make(chan error, 1)
	wg.Go(func() { ended <- c.EndPuts(ctx, []string{"k"})[0] })
	for !errs.Is(c.PutRanges(ctx, []store.Ranges{write("k", 0, nil)})[0].Err, errs.InvalidParams) { // Until the end has begun.
	}
	require.Equal(t, errs.UnavailableInCurrentStatus, errs.CodeOf(c.RevokePuts(ctx, []string{"k"})[0]), "one call at a time")
	require.Empty(t, ended)
	close(ending)
	wg.Wait()
	require.NoError(t, wrote.Err)
	require.NoError(t, <-ended)
	got, err := c.Get(ctx, "k")
	require.NoError(t, err)
	require.Equal(t, "value", string(got))
}

// lying is a master that names places of another size than was asked for.
type lying struct{ *ledger }

func (l lying) PutStart(ctx context.Context, c model.Caller, items []model.PutItem, cfg model.ReplicateConfig, _ *model.Answer[[]model.Replica]) ([]model.Result[[]model.Replica], error) {
	out, err := l.ledger.PutStart(ctx, c, items, cfg, nil)
	for _, r := range out {
		r.Value[0].Size--
	}
	return out, err
}

// TestPlacesThatDoNotFit are given back.
func TestPlacesThatDoNotFit(t *testing.T) {
	p, l := newLedgerPool(t)
	p.member("a:1", memberOptions{segments: []uint64{segment}})
	c := p.member("c:1", memberOptions{})
	p.master.set(lying{l})
	require.Equal(t, errs.InvalidReplica, errs.CodeOf(c.StartPuts(t.Context(), []string{"k"}, []uint64{9}, one, nil)[0]))
	p.master.set(l)
	putOne(t, c, "k", []byte("value"), one)
}

// TestSpaceThatMayStillBeWritten: the master quarantines such space, however the put is abandoned.
// A master that cannot quarantine it keeps the put.
func TestSpaceThatMayStillBeWritten(t *testing.T) {
	for _, old := range []bool{false, true} {
		p := newPool(t, nil)
		p.member("a:1", memberOptions{segments: []uint64{1 << 20}})
		c := p.member("c:1", memberOptions{})
		c.wire.SetHook(func(memtransport.Event) memtransport.Fault { return memtransport.Fault{Err: errCut, Quarantine: true} })
		if old {
			p.master.set(oldMaster{p.master.current()})
		}
		user := c.NewLayers()
		keys := []string{"ended", "revoked", "closed"}
		for _, key := range keys {
			l := c.Layers()
			if key == "closed" {
				l = user
			}
			require.NoError(t, l.StartPuts(t.Context(), []string{key}, []uint64{300_000}, one, nil)[0])
			require.ErrorIs(t, l.PutRanges(t.Context(), []store.Ranges{write(key, 0, []byte("v"))})[0].Err, transfer.ErrQuarantined)
		}
		require.ErrorIs(t, c.EndPuts(t.Context(), keys[:1])[0], transfer.ErrQuarantined)
		require.NoError(t, c.RevokePuts(t.Context(), keys[1:2])[0])
		require.NoError(t, user.Close(t.Context()))
		c.wire.SetHook(nil)
		require.True(t, errs.Is(c.Put(t.Context(), "other", content("other", 300_000), one), errs.NoAvailableHandle), "the space is held")
		unrevoked, free := 0, errs.OK
		if old {
			unrevoked, free = 3, errs.ObjectAlreadyExists
		}
		require.Equal(t, unrevoked, c.count(t, "mooncake_client_puts_unrevoked_total"))
		require.Equal(t, []errs.Code{free, free, free}, codes(c.StartPuts(t.Context(), keys, []uint64{1, 1, 1}, one, nil)))
	}
}

// TestIndeterminateRevokeWithoutAnswer: when the session revokes a put again, it still knows that
// indeterminate writes may reach its space.
func TestIndeterminateRevokeWithoutAnswer(t *testing.T) {
	p := newPool(t, nil)
	p.member("a:1", memberOptions{segments: []uint64{1 << 20}})
	c := p.member("c:1", memberOptions{})
	c.wire.SetHook(func(memtransport.Event) memtransport.Fault { return memtransport.Fault{Err: errCut, Quarantine: true} })
	keys := []string{"k"}
	require.NoError(t, c.StartPuts(t.Context(), keys, []uint64{600_000}, one, nil)[0])
	require.ErrorIs(t, c.PutRanges(t.Context(), []store.Ranges{write("k", 0, []byte("v"))})[0].Err, transfer.ErrQuarantined)
	p.master.setHook(func(k call) error {
		if k.name == "PutRevoke" {
			p.master.setHook(nil)
			return errDown
		}
		return nil
	})
	require.Equal(t, errs.RPCFail, errs.CodeOf(c.RevokePuts(t.Context(), keys)[0]))
	require.NoError(t, c.RevokePuts(t.Context(), keys)[0])
	c.wire.SetHook(nil)
	require.True(t, errs.Is(c.Put(t.Context(), "k", content("k", 600_000), one), errs.NoAvailableHandle), "the space is held")
}

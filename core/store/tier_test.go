package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/testkit/heldport"
	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/client"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

var errBusy = errs.New(errs.UnavailableInCurrentStatus, "test tier", "busy")

// TestReadsFromTiers: what lies on a tier alone is read whole, in ranges and in sessions, and verified. Of a range, the node
// stages the grains that it touches, and it is told to free everything.
func TestReadsFromTiers(t *testing.T) {
	p := newTierPool(t, 64<<20, memberOptions{})
	n := p.tierNode("d:1", 64<<20)
	var keys []string
	var values, dst [][]byte
	for i, size := range []int{1, 5000, 64 << 10, 200_000, 20 << 20} {
		key := fmt.Sprint("k", i)
		values, keys = append(values, p.put(key, size)), append(keys, key)
		dst = append(dst, make([]byte, size))
		p.tiered.offload(key, values[i], n, "")
	}
	got, err := p.reader.Get(tctx, "k3")
	require.NoError(t, err)
	require.Equal(t, values[3], got)
	require.Empty(t, n.seen(), "there is a replica in memory")
	require.Zero(t, p.reader.StageCalls())

	p.tiered.evict(keys...)
	for i, r := range p.reader.BatchGetInto(tctx, keys, dst) {
		require.NoError(t, r.Err)
		require.Equal(t, values[i], dst[i])
	}
	n.allFree(t)
	calls := n.seen()
	require.Equal(t, uint64(len(calls)), p.reader.StageCalls())
	require.Equal(t, len(keys), p.reader.count(t, "mooncake_client_tier_reads_total"))
	require.Equal(t, 1+5000+64<<10+200_000+20<<20, p.reader.count(t, "mooncake_client_tier_read_bytes_total"))

	mem := make([]byte, 100)
	res := p.reader.GetIntoRanges(tctx, []store.Ranges{{Key: "k3", Fragments: []store.Fragment{{Offset: 40_000, Mem: mem[:50]}, {Offset: 100_000, Mem: mem[50:]}}}})
	require.NoError(t, res[0][0].Err)
	require.NoError(t, res[0][1].Err)
	require.Equal(t, values[3][40_000:40_050], mem[:50])
	require.Equal(t, values[3][100_000:100_050], mem[50:])
	reads := n.seen()[len(calls)]
	require.Len(t, reads, 2, "nothing between the ranges is staged")
	require.Equal(t, [2]uint64{2 * model.MinGrain, model.MinGrain}, [2]uint64{reads[0].Offset, reads[0].Length})
	require.Equal(t, [2]uint64{6 * model.MinGrain, model.MinGrain}, [2]uint64{reads[1].Offset, reads[1].Length})

	require.NoError(t, p.reader.StartGets(tctx, []string{"k3"})[0])
	for _, off := range []uint64{0, 199_900} {
		got := p.reader.GetRanges(tctx, []store.Ranges{{Key: "k3", Fragments: []store.Fragment{{Offset: off, Mem: mem}}}})
		require.NoError(t, got[0].Err)
		require.Equal(t, values[3][off:off+100], mem)
	}
	require.NoError(t, p.reader.EndGets(tctx, []string{"k3"}))
	n.allFree(t)
}

// TestManyObjectsFromTiers: a batch that is larger than what a node stages at the same time is read in waves.
func TestManyObjectsFromTiers(t *testing.T) {
	const count, size = 300, 256 << 10
	p := newTierPool(t, 160<<20, memberOptions{})
	n := p.tierNode("d:1", 64<<20)
	n.release = 20 * time.Millisecond // The next wave has to wait for it.
	var first uint64
	n.read = func(r model.StageRead, b []byte) error { // One of the first wave has wrong bytes once.
		if first == 0 {
			first = r.Replica
			clear(b)
		}
		return nil
	}
	keys, values, dst := make([]string, count), make([][]byte, count), make([][]byte, count)
	for i := range keys {
		keys[i], dst[i] = fmt.Sprint("k", i), make([]byte, size)
		values[i] = p.put(keys[i], size)
		p.tiered.offload(keys[i], values[i], n, "")
		if i%10 > 0 { // The others are in memory, too.
			p.tiered.evict(keys[i])
		}
	}
	for i, r := range p.reader.BatchGetInto(tctx, keys, dst) {
		require.NoError(t, r.Err)
		require.Equal(t, values[i], dst[i])
	}
	n.allFree(t)
	reads := 0
	for _, c := range n.seen() {
		reads += len(c)
		require.LessOrEqual(t, len(c)*size, 16<<20)
	}
	require.Equal(t, count*9/10+1, reads)
	require.Equal(t, 1, p.reader.count(t, "mooncake_client_checksum_mismatches_total"))
	require.LessOrEqual(t, n.most, 4)
	require.LessOrEqual(t, n.peak, 64<<20)
	require.Zero(t, p.reader.count(t, "mooncake_client_tier_read_failures_total"))

	var small []string
	for i := range 600 {
		key := fmt.Sprint("small", i)
		p.tiered.offload(key, p.put(key, 100), n, "")
		small = append(small, key)
	}
	p.tiered.evict(small...)
	before := len(n.seen())
	for i, r := range p.reader.BatchGet(tctx, small) {
		require.NoError(t, r.Err)
		require.Equal(t, content(small[i], 100), r.Value)
	}
	for _, c := range n.seen()[before:] {
		require.LessOrEqual(t, len(c), 256)
	}
}

// TestTiersThatCannotBeRead: a replica that its node cannot stage is left for the next one. Without another one the read fails,
// with the reason, and the object stays.
func TestTiersThatCannotBeRead(t *testing.T) {
	dead := heldport.Address(t)
	for name, c := range map[string]struct {
		spoil    func(n *tierNode)
		endpoint string
		want     errs.Code
	}{
		"a busy node":   {spoil: func(n *tierNode) { n.bound = 10 }, want: errs.UnavailableInCurrentStatus},
		"a busy call":   {spoil: func(n *tierNode) { n.before = func(context.Context) error { return errBusy } }, want: errs.UnavailableInCurrentStatus},
		"a lost record": {spoil: func(n *tierNode) { clear(n.disk) }, want: errs.ObjectNotFound},
		"a damaged record": {spoil: func(n *tierNode) {
			n.read = func(model.StageRead, []byte) error { return errs.New(errs.ChecksumMismatch, "test tier", "damaged") }
		}, want: errs.ChecksumMismatch},
		"a dead node":         {spoil: func(*tierNode) {}, endpoint: dead, want: errs.RPCFail},
		"a panic of the node": {spoil: func(n *tierNode) { n.before = func(context.Context) error { panic("a bug") } }, want: errs.Internal},
		"bytes that are late": {spoil: func(n *tierNode) { n.ttl = func(int) time.Duration { return 0 } }, want: errs.LeaseExpired},
	} {
		t.Run(name, func(t *testing.T) {
			p := newTierPool(t, 16<<20, memberOptions{})
			bad, good := p.tierNode("d:1", 1<<20), p.tierNode("d:2", 1<<20)
			value := p.put("k", 5000)
			if c.endpoint == "" {
				p.tiered.offload("k", value, bad, "")
			} else {
				p.tiered.offload("k", value, nil, c.endpoint)
			}
			bad.set(func() { c.spoil(bad) })
			p.tiered.evict("k")
			dst := make([]byte, 5000)
			_, err := p.reader.GetInto(tctx, "k", dst)
			require.Equal(t, errs.TransferFail, errs.CodeOf(err))
			require.True(t, store.IsMiss(err))
			require.True(t, errors.Is(err, c.want.Err()), "%v", err)
			require.Positive(t, p.reader.count(t, "mooncake_client_tier_read_failures_total"))
			p.tiered.offload("k", value, good, "")
			for range 8 { // The order is random.
				_, err = p.reader.GetInto(tctx, "k", dst)
				require.NoError(t, err)
				require.Equal(t, value, dst)
				clear(dst)
			}
			bad.set(func() { bad.before = nil })
			bad.allFree(t)
			good.allFree(t)
			require.Zero(t, p.reader.count(t, "mooncake_client_damaged_objects_removed_total"))
		})
	}
}

// TestStagedBytesThatWereLateOnce: bytes that arrived after the node may have freed them are thrown away, and staged again.
func TestStagedBytesThatWereLateOnce(t *testing.T) {
	p := newTierPool(t, 16<<20, memberOptions{})
	n := p.tierNode("d:1", 1<<20)
	n.ttl = func(call int) time.Duration { return time.Duration(call-1) * time.Minute }
	n.read = func(_ model.StageRead, b []byte) error {
		if len(n.calls) == 1 {
			clear(b) // as if they had been freed
		}
		return nil
	}
	value := p.put("k", 5000)
	p.tiered.offload("k", value, n, "")
	p.tiered.evict("k")
	got, err := p.reader.Get(tctx, "k")
	require.NoError(t, err)
	require.Equal(t, value, got)
	require.Len(t, n.seen(), 2)
	require.Zero(t, p.reader.count(t, "mooncake_client_checksum_mismatches_total"))
	n.allFree(t)
}

// TestWrongBytesOfTiers: wrong bytes are never returned. An object with a replica in memory that cannot be reached now stays.
// One whose only replica is damaged is removed, so that it can be put again.
func TestWrongBytesOfTiers(t *testing.T) {
	p := newTierPool(t, 16<<20, memberOptions{})
	n := p.tierNode("d:1", 4<<20)
	n.read = func(r model.StageRead, b []byte) error {
		if at := r.Size / 2; r.Offset <= at && at < r.Offset+r.Length {
			b[at-r.Offset] ^= 1
		}
		return nil
	}
	var cut atomic.Bool
	p.reader.wire.SetHook(func(e memtransport.Event) memtransport.Fault {
		if cut.Load() && e.To == "a:1" {
			return memtransport.Fault{Err: errs.WithClass(errs.ClassTransientPeer, "test", errCut)}
		}
		return memtransport.Fault{}
	})
	for i, size := range []int{5000, 200_000} {
		key := fmt.Sprint("k", size)
		value := p.put(key, size)
		p.tiered.offload(key, value, n, "")
		calls := len(n.seen())
		cut.Store(true)
		_, err := p.reader.Get(tctx, key)
		require.Equal(t, errs.ChecksumMismatch, errs.CodeOf(err))
		require.Len(t, n.seen(), calls+2, "the replica is read a second time")
		cut.Store(false)
		require.Eventually(t, func() bool { // The engine leaves the node in peace for a moment.
			got, err := p.reader.Get(tctx, key)
			return err == nil && string(got) == string(value)
		}, 30*time.Second, 10*time.Millisecond)

		p.tiered.evict(key)
		mem := make([]byte, 100)
		part := func(off int) error {
			return p.reader.GetIntoRanges(tctx, []store.Ranges{{Key: key, Fragments: []store.Fragment{{Offset: uint64(off), Mem: mem}}}})[0][0].Err
		}
		if i == 1 {
			require.NoError(t, part(100), "that grain is good")
		}
		require.Equal(t, errs.ChecksumMismatch, errs.CodeOf(part(size/2-10)))
		require.Equal(t, i+1, p.reader.count(t, "mooncake_client_damaged_objects_removed_total"))
		require.Equal(t, errs.ObjectNotFound, errs.CodeOf(part(100)))
	}
	n.allFree(t)
}

// TestClientsWithoutTiers: a client that cannot read tiers says so, and reads what else there is.
func TestClientsWithoutTiers(t *testing.T) {
	p := newTierPool(t, 16<<20, memberOptions{})
	n := p.tierNode("d:1", 1<<20)
	value := p.put("k", 5000)
	p.tiered.offload("k", value, n, "")
	plain := p.member("p:1", memberOptions{master: p.tiered})
	got, err := plain.Get(tctx, "k")
	require.NoError(t, err)
	require.Equal(t, value, got)
	p.tiered.evict("k")
	_, err = plain.Get(tctx, "k")
	require.Equal(t, errs.NotSupported, errs.CodeOf(err))
	require.ErrorContains(t, err, "cannot read storage tiers")
	require.Empty(t, n.seen())
}

// TestReadTimeoutBoundsStage: a node that does not answer costs a read its timeout and no more, and gets to know it.
func TestReadTimeoutBoundsStage(t *testing.T) {
	p := newTierPool(t, 16<<20, memberOptions{client: func(c *client.Config) { c.TransferTimeout = 300 * time.Millisecond }})
	n := p.tierNode("d:1", 1<<20)
	n.before = func(ctx context.Context) error {
		limit, ok := ctx.Deadline()
		assert.True(t, ok)
		assert.LessOrEqual(t, time.Until(limit), 300*time.Millisecond)
		<-ctx.Done()
		return ctx.Err()
	}
	p.tiered.offload("k", p.put("k", 5000), n, "")
	p.tiered.evict("k")
	_, err := p.reader.Get(tctx, "k")
	require.ErrorIs(t, err, errs.RPCTimeout.Err())

	ctx, cancel := context.WithCancel(tctx)
	n.set(func() { n.before = func(ctx context.Context) error { cancel(); <-ctx.Done(); return ctx.Err() } })
	_, err = p.reader.Get(ctx, "k")
	require.Equal(t, errs.TransferFail, errs.CodeOf(err))
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, p.reader.count(t, "mooncake_client_tier_read_failures_total"), "the caller ended the second one")
}

// TestHotCacheHoldsObjectsOfTiers: an object on a tier that is read often is read from memory then.
func TestHotCacheHoldsObjectsOfTiers(t *testing.T) {
	p := newTierPool(t, 16<<20, memberOptions{client: hot})
	n := p.tierNode("d:1", 1<<20)
	value := p.put("k", 5000)
	p.tiered.offload("k", value, n, "")
	p.tiered.evict("k")
	require.Eventually(t, func() bool {
		before := len(n.seen())
		got, err := p.reader.Get(tctx, "k")
		return err == nil && string(got) == string(value) && len(n.seen()) == before && p.reader.count(t, "mooncake_client_hot_cache_hits_total") > 0
	}, 30*time.Second, time.Millisecond)
}

// TestTiersAreForWhatMemoryCannotServe: a read whose node in memory fails goes on with the tier.
func TestTiersAreForWhatMemoryCannotServe(t *testing.T) {
	p := newTierPool(t, 16<<20, memberOptions{})
	n := p.tierNode("d:1", 4<<20)
	value := p.put("k", 200_000)
	p.tiered.offload("k", value, n, "")
	p.reader.wire.SetHook(func(e memtransport.Event) memtransport.Fault {
		if e.To == "a:1" {
			return memtransport.Fault{Err: errs.WithClass(errs.ClassTransientPeer, "test", errCut)}
		}
		return memtransport.Fault{}
	})
	got, err := p.reader.Get(tctx, "k")
	require.NoError(t, err)
	require.Equal(t, value, got)
	require.Len(t, n.seen(), 1)
	require.Equal(t, 1, p.reader.count(t, "mooncake_client_replica_failovers_total"))
	n.allFree(t)
}

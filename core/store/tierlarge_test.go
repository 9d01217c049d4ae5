package store_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// TestNextWaveIsStagedDuringTheTransfer: the first transfer, of what is in memory, goes on only once the node is asked to stage
// the first wave, and that of the first wave once it is asked for the second one.
func TestNextWaveIsStagedDuringTheTransfer(t *testing.T) {
	p := newTierPool(t, 64<<20, memberOptions{})
	n := p.tierNode("d:1", 64<<20)
	keys := make([]string, 11)
	for i := range keys {
		keys[i] = fmt.Sprint("k", i)
		value := p.put(keys[i], 4<<20)
		if i > 0 {
			p.tiered.offload(keys[i], value, n, "")
			p.tiered.evict(keys[i])
		}
	}
	p.reader.wire.SetHook(func(e memtransport.Event) memtransport.Fault {
		want := map[string]int{"a:1": 1, "d:1": 9}[e.To] // reads; 8 are a wave
		assert.Eventually(t, func() bool {
			reads := 0
			for _, c := range n.seen() {
				reads += len(c)
			}
			return reads >= want
		}, 30*time.Second, time.Millisecond)
		return memtransport.Fault{}
	})
	for i, r := range p.reader.BatchGet(tctx, keys) {
		require.NoError(t, r.Err)
		require.Equal(t, content(keys[i], 4<<20), r.Value)
	}
	n.allFree(t)
}

// TestLargeObjectsFromTiers: an object of any size is read through a staging memory that has one step of it, whole and in
// ranges, also where the checksums of its ranges are not known.
func TestLargeObjectsFromTiers(t *testing.T) {
	const size, step = 70<<20 + 5, 16 << 20
	for _, bound := range []int{step, 2 * step, 200 << 20} {
		t.Run(fmt.Sprint(bound), func(t *testing.T) {
			p := newTierPool(t, 160<<20, memberOptions{})
			n := p.tierNode("d:1", 128<<20)
			n.bound = bound
			p.reader.wire.SetSums(bound > step) // else the client computes the checksum
			value := p.put("k", size)
			p.tiered.offload("k", value, n, "")
			p.tiered.evict("k")
			dst := make([]byte, size)
			_, err := p.reader.GetInto(tctx, "k", dst)
			require.NoError(t, err)
			require.True(t, bytes.Equal(value, dst))
			require.LessOrEqual(t, n.peak, min(bound, 64<<20))
			for _, c := range n.seen() {
				for _, r := range c {
					require.LessOrEqual(t, r.Length, uint64(step))
				}
			}
			if bound > 64<<20 {
				require.Len(t, n.seen(), 5, "each step once")
			}
			require.Equal(t, 1, p.reader.count(t, "mooncake_client_tier_reads_total"))

			p.tiered.noGrains = bound == step
			a, b, c := make([]byte, 100), make([]byte, 20<<20), make([]byte, 1)
			before := len(n.seen())
			for i, r := range p.reader.GetIntoRanges(tctx, []store.Ranges{{Key: "k", Fragments: []store.Fragment{{Offset: 50, Mem: a}, {Offset: 30<<20 + 1, Mem: b}, {Offset: size - 1, Mem: c}}}})[0] {
				require.NoError(t, r.Err, i)
			}
			require.True(t, bytes.Equal(value[50:150], a) && bytes.Equal(value[30<<20+1:][:20<<20], b) && value[size-1] == c[0])
			staged := uint64(0)
			for _, c := range n.seen()[before:] {
				for _, r := range c {
					staged += r.Length
				}
			}
			if grain := model.GrainSize(size); !p.tiered.noGrains && bound > 64<<20 {
				require.LessOrEqual(t, staged, 20<<20+5*grain)
			} else {
				require.GreaterOrEqual(t, staged, uint64(20<<20))
			}
			n.allFree(t)
			require.Zero(t, p.reader.count(t, "mooncake_client_tier_read_failures_total"))
		})
	}
}

// TestLargeObjectsFromTiersGoWrong: a step with wrong bytes is never part of what a read returns; one that was late, or that
// failed, is read again or from another replica.
func TestLargeObjectsFromTiersGoWrong(t *testing.T) {
	const size, step = 70 << 20, 16 << 20
	for name, c := range map[string]struct {
		spoil func(n *tierNode)
		calls int
		want  errs.Code
	}{
		"damaged once": {calls: 10, spoil: func(n *tierNode) {
			once := true
			n.read = func(r model.StageRead, b []byte) error {
				if r.Offset == 2*step && once {
					once = false
					b[7] ^= 1
				}
				return nil
			}
		}},
		"damaged": {want: errs.ChecksumMismatch, spoil: func(n *tierNode) {
			n.read = func(r model.StageRead, b []byte) error {
				if r.Offset == 2*step {
					b[7] ^= 1
				}
				return nil
			}
		}},
		"late once": {calls: 7, spoil: func(n *tierNode) {
			n.ttl = func(call int) time.Duration { return time.Duration(call-1) * time.Minute }
		}},
		"late": {want: errs.LeaseExpired, spoil: func(n *tierNode) {
			n.ttl = func(call int) time.Duration { return time.Duration(max(0, 3-call)) * time.Minute }
		}},
		"lost": {want: errs.ObjectNotFound, spoil: func(n *tierNode) {
			n.read = func(r model.StageRead, _ []byte) error {
				if r.Offset == 3*step {
					return errs.New(errs.ObjectNotFound, "test tier", "it went")
				}
				return nil
			}
		}},
		"busy for others": {want: errs.UnavailableInCurrentStatus, spoil: func(n *tierNode) {
			n.read = func(r model.StageRead, _ []byte) error {
				if r.Offset == 3*step {
					return errBusy
				}
				return nil
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newTierPool(t, 160<<20, memberOptions{})
			bad, good := p.tierNode("d:1", 128<<20), p.tierNode("d:2", 128<<20)
			value := p.put("k", size)
			p.tiered.offload("k", value, bad, "")
			bad.set(func() { c.spoil(bad) })
			p.tiered.evict("k")
			dst := make([]byte, size)
			if c.want != 0 {
				p.tiered.offload("k", value, good, "")
				require.Eventually(t, func() bool { // The order is random.
					clear(dst)
					_, err := p.reader.GetInto(tctx, "k", dst)
					require.NoError(t, err)
					require.True(t, bytes.Equal(value, dst))
					return len(bad.seen()) > 0
				}, 30*time.Second, time.Millisecond)
				p.tiered.mu.Lock()
				p.tiered.onTier["k"] = p.tiered.onTier["k"][:1]
				p.tiered.mu.Unlock()
				_, err := p.reader.GetInto(tctx, "k", dst)
				require.ErrorIs(t, err, c.want.Err())
				good.allFree(t)
			} else {
				_, err := p.reader.GetInto(tctx, "k", dst)
				require.NoError(t, err)
				require.True(t, bytes.Equal(value, dst))
				require.Len(t, bad.seen(), c.calls)
			}
			bad.allFree(t)
		})
	}
}

// TestNextStepIsStagedDuringTheTransfer: the steps of one object follow each other as the objects of a batch do.
func TestNextStepIsStagedDuringTheTransfer(t *testing.T) {
	p := newTierPool(t, 160<<20, memberOptions{})
	n := p.tierNode("d:1", 128<<20)
	value := p.put("k", 64<<20)
	p.tiered.offload("k", value, n, "")
	p.tiered.evict("k")
	p.reader.wire.SetHook(func(memtransport.Event) memtransport.Fault {
		assert.Eventually(t, func() bool { return len(n.seen()) == 4 }, 30*time.Second, time.Millisecond)
		return memtransport.Fault{}
	})
	got, err := p.reader.Get(tctx, "k")
	require.NoError(t, err)
	require.True(t, bytes.Equal(value, got))
	n.allFree(t)
}

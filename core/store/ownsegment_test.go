package store_test

import (
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// TestOwnSegment: the checksum that is computed during the copy into or out of a segment of this
// process is verified like any other, and equals the one that a reader over the network computes.
func TestOwnSegment(t *testing.T) {
	p := newPool(t, nil)
	a := p.member("a:1", memberOptions{segments: []uint64{32 << 20}})
	c := p.member("c:1", memberOptions{})
	for key, size := range map[string]int{"small": 100, "page": 1 << 20, "large": 9<<20 + 1} {
		want := content(key, size)
		require.NoError(t, a.PutFragments(t.Context(), key, [][]byte{want[:size/3], want[size/3:]}, one))
		got, err := p.master.GetReplicas(t.Context(), model.Caller{}, []model.Key{key}, nil)
		require.NoError(t, err)
		require.NoError(t, got[0].Err)
		sum := crc32.Checksum(want, crc32.MakeTable(crc32.Castagnoli))
		require.Equal(t, model.Checksum{Kind: model.ChecksumCRC32C, Value: uint64(sum)}, got[0].Value.Checksum)
		for _, reader := range []*member{a, c} {
			dst := make([]byte, size)
			n, err := reader.GetInto(t.Context(), key, [][]byte{dst[:size/2], dst[size/2:]}...)
			require.NoError(t, err)
			require.Equal(t, size, n)
			require.True(t, string(want) == string(dst))
		}
		require.Equal(t, 1, damage(a.node, want))
		_, err = a.Get(t.Context(), key)
		require.True(t, errs.Is(err, errs.ChecksumMismatch), "%v", err)
	}
}

// TestCopiesHereAndThere: the checksum of a value that goes to two nodes is that of both copies,
// whichever of them has its checksum computed during the copy.
func TestCopiesHereAndThere(t *testing.T) {
	p := newPool(t, nil)
	a := p.member("a:1", memberOptions{segments: []uint64{segment}})
	b := p.member("b:1", memberOptions{segments: []uint64{segment}})
	two := one
	two.ReplicaNum = 2
	want := content("k", 300_000)
	require.NoError(t, a.Put(t.Context(), "k", want, two))
	for _, m := range []*member{a, b} {
		got, err := m.Get(t.Context(), "k")
		require.NoError(t, err)
		require.True(t, string(want) == string(got))
		require.Zero(t, m.count(t, "mooncake_client_checksum_mismatches_total"))
	}
}

// TestTransportThatLeavesOutSums: a transport that promised checksums and gives some only is made
// up for.
func TestTransportThatLeavesOutSums(t *testing.T) {
	p := newPool(t, nil)
	p.member("a:1", memberOptions{segments: []uint64{segment}})
	c := p.member("c:1", memberOptions{})
	c.wire.SetSums(true)
	require.NoError(t, c.Put(t.Context(), "first", content("first", 10), one)) // connects
	c.wire.SetHook(func(e memtransport.Event) memtransport.Fault { return memtransport.Fault{NoSum: e.N%2 == 0} })
	for i := range 6 {
		key := fmt.Sprint("k", i)
		want := content(key, 100_000)
		require.NoError(t, c.Put(t.Context(), key, want, one))
		got, err := c.Get(t.Context(), key)
		require.NoError(t, err)
		require.True(t, string(want) == string(got))
	}
	require.Zero(t, c.count(t, "mooncake_client_checksum_mismatches_total"))
}

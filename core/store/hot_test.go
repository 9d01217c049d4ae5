package store_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/client"
)

// TestHotObjects: what is read often is read from this process, and never once it is stale.
func TestHotObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := newLedgerPool(t)
		a := p.member("a:1", memberOptions{segments: []uint64{1 << 20}, client: hot})
		c := p.member("c:1", memberOptions{client: hot})
		value := content("k", 5000)
		require.NoError(t, c.Put(t.Context(), "k", value, one))
		get := func(m *member) []byte {
			got, err := m.Get(t.Context(), "k")
			require.NoError(t, err)
			synctest.Wait()
			return got
		}
		for range 5 {
			require.Equal(t, value, get(c))
			require.Equal(t, value, get(a))
		}
		require.Equal(t, 3, c.count(t, "mooncake_client_hot_cache_hits_total"), "taken in after the second")
		require.Zero(t, a.count(t, "mooncake_client_hot_cache_fills_total"), "its own memory is near enough")
		part := make([]byte, 100)
		res := c.GetIntoRanges(t.Context(), []store.Ranges{{Key: "k", Fragments: []store.Fragment{{Offset: 700, Mem: part}}}})
		require.NoError(t, res[0][0].Err)
		require.Equal(t, value[700:800], part)
		require.Equal(t, 4, c.count(t, "mooncake_client_hot_cache_hits_total"))

		require.NoError(t, a.Upsert(t.Context(), "k", content("new", 5000), one), "elsewhere")
		require.Equal(t, content("new", 5000), get(c))
		for range 3 {
			require.Equal(t, content("new", 5000), get(c))
		}
		require.NoError(t, c.Upsert(t.Context(), "k", content("newer", 300), one))
		require.Equal(t, content("newer", 300), get(c))
		require.NoError(t, c.Remove(t.Context(), "k", true))
		_, err := c.Get(t.Context(), "k")
		require.True(t, store.IsMiss(err))
	})
}

func hot(c *client.Config) { c.HotCache.Size, c.HotCache.BlockSize = 64<<10, 8<<10 }

// TestHotCacheNeedsChecksums: nothing else tells a changed object.
func TestHotCacheNeedsChecksums(t *testing.T) {
	cfg := client.DefaultConfig()
	hot(&cfg)
	cfg.Checksum = false
	require.ErrorContains(t, cfg.Validate(), "checksum")
	cfg.Checksum, cfg.HotCache.BlockSize = true, 0
	require.ErrorContains(t, cfg.Validate(), "block size")
}

package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/test/internal/programs"
)

// TestAPausedStoreKeepsItsObjects: a store that pauses while its pool rises above the watermark confirms no eviction. The master
// evicts once all the same, and the other objects are there when the store goes on.
func TestAPausedStoreKeepsItsObjects(t *testing.T) {
	const size, objects, late = 64 << 10, 229, 8 // of 256 that fit; the watermark is at 230
	p := startPool(t, 0)
	store, _ := p.startNamed(t, 1, "--global_segment_size", "16MiB")
	p.waitMounted(t, 1)
	c := openTCP(t, p)
	put := func(ctx context.Context, i int) error {
		return c.Store.Put(ctx, fmt.Sprintf("key/%d", i), make([]byte, size), model.DefaultReplicateConfig())
	}
	for i := range objects {
		require.NoError(t, put(t.Context(), i))
	}
	keys := func() int {
		text, err := p.get(t, "/get_all_keys")
		require.NoError(t, err)
		return strings.Count(text, "key/")
	}
	require.Equal(t, objects, keys())

	programs.Freeze(t, store.PID())
	t.Cleanup(func() { _ = store.Signal(syscall.SIGCONT) })
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	var work sync.WaitGroup
	for i := range late {
		work.Go(func() { _ = put(ctx, objects+i) }) // They take memory, and fail because the store is silent.
	}
	work.Wait()
	require.NoError(t, store.Signal(syscall.SIGCONT))
	require.NoError(t, put(t.Context(), objects+late), "the pool goes on")
	left := keys()
	t.Logf("%d of %d objects are left", left, objects)
	require.Less(t, left, objects, "the watermark was not reached")
	require.Greater(t, left, objects*8/10)
}

// TestPutsPassAPausedStore: in a full pool every put evicts. While one of two stores stands still, puts evict objects of the other
// one and wait for that alone, but for the first ones. The objects of the store that stands still are kept.
func TestPutsPassAPausedStore(t *testing.T) {
	for _, watermark := range []string{"1", "0.9"} {
		t.Run("watermark "+watermark, func(t *testing.T) {
			const size, fits, puts = 64 << 10, 512, 1000
			p := startPool(t, 0, "--eviction_high_watermark_ratio", watermark)
			stopped, _ := p.startNamed(t, 1, "--global_segment_size", "16MiB")
			p.startNamed(t, 2, "--global_segment_size", "16MiB")
			p.waitMounted(t, 2)
			c := openTCP(t, p)
			put := func(ctx context.Context, i int) error {
				return c.Store.Put(ctx, fmt.Sprintf("key/%d", i), make([]byte, size), model.DefaultReplicateConfig())
			}
			for i := range fits * 5 / 4 {
				require.NoError(t, put(t.Context(), i))
			}
			programs.Freeze(t, stopped.PID())
			t.Cleanup(func() { _ = stopped.Signal(syscall.SIGCONT) })
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // Each put that waits for the store takes a second.
			defer cancel()
			for i := range puts {
				require.NoError(t, put(ctx, fits*5/4+i), "put %d", i)
			}
			require.NoError(t, stopped.Signal(syscall.SIGCONT))
			text, err := p.get(t, "/get_all_keys")
			require.NoError(t, err)
			left := strings.Count(text, "key/")
			t.Logf("%d of %d objects that fit are left", left, fits)
			require.Greater(t, left, fits*8/10)
		})
	}
}

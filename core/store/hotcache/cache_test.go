package hotcache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// world is the objects that a cache reads.
type world struct {
	mu      sync.Mutex
	version map[string]uint64
	loads   int
	fail    bool
	spoil   bool
	gate    chan struct{} // nil, or what every load waits for
}

func (w *world) object(key string) *model.Object {
	w.mu.Lock()
	defer w.mu.Unlock()
	v := w.version[key]
	return &model.Object{Size: 8, Checksum: model.Checksum{Kind: model.ChecksumCRC32C, Value: v}, Replicas: []model.Replica{{ID: 1000 + v}, {ID: 2000 + v}}}
}

func bytesOf(key string, v uint64) []byte { return []byte(fmt.Sprintf("%-4s%04d", key, v))[:8] }

func (w *world) load(ctx context.Context, key string, dst []byte) (Stamp, bool, error) {
	if w.gate != nil {
		select {
		case <-w.gate:
		case <-ctx.Done():
		}
	}
	o := w.object(key)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.loads++
	if w.fail || w.spoil {
		return Stamp{}, w.spoil, errors.New("not available")
	}
	copy(dst, bytesOf(key, o.Checksum.Value))
	return Stamp{Size: 8, Checksum: o.Checksum, Replica: o.Replicas[1].ID}, false, nil
}

func (w *world) change(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.version[key]++
}

func small(blocks, threshold int) Config {
	return Config{Size: uint64(16 * blocks), BlockSize: 16, Threshold: threshold, Workers: 2, Queue: 4}
}

func (w *world) cache(cfg Config) *Cache { return New(cfg, w.load) }

func newWorld() *world { return &world{version: map[string]uint64{}} }

// holds reports whether the cache serves a key.
func holds(c *Cache, w *world, key string) bool {
	return c.View(key, w.object(key), func([]byte) bool { return true })
}

func TestAdmissionAndLRU(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		c := w.cache(small(2, 2))
		defer c.Close()
		see := func(key string) { c.Saw(key, 8); synctest.Wait() }
		see("a")
		require.False(t, holds(c, w, "a"), "seen once")
		see("a")
		require.True(t, holds(c, w, "a"))
		see("b")
		see("b")
		require.True(t, holds(c, w, "a"), "used after b")
		see("c")
		see("c")
		require.True(t, holds(c, w, "c"))
		require.True(t, holds(c, w, "a"))
		require.False(t, holds(c, w, "b"), "least recently used")
		c.Saw("large", 17)
		c.Saw("large", 17)
		synctest.Wait()
		require.Equal(t, 3, w.loads)
		c.Drop("a")
		require.False(t, holds(c, w, "a"))
		c.Clear()
		require.False(t, holds(c, w, "c"))
		s := c.Stats()
		require.Equal(t, uint64(3), s.Fills)
		require.Equal(t, uint64(32), s.Bytes)
		require.Equal(t, uint64(4), s.Hits)
	})
}

func TestChangedObjectIsNotServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		c := w.cache(small(2, 1))
		defer c.Close()
		c.Saw("a", 8)
		synctest.Wait()
		require.True(t, holds(c, w, "a"))
		w.change("a")
		require.False(t, holds(c, w, "a"))
		o := w.object("a")
		o.Replicas[0].ID, o.Replicas[1].ID = 7, 8
		c.Saw("a", 8)
		synctest.Wait()
		require.False(t, c.View("a", o, func([]byte) bool { return true }), "the same checksum, and put anew")
		require.False(t, c.View("a", w.object("a"), func([]byte) bool { return true }), "and it is gone with that")
	})
}

// What is dropped while it is read is not taken in; what fails leaves its block behind.
func TestFillsThatComeToNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.gate = make(chan struct{})
		c := w.cache(small(1, 1))
		defer c.Close()
		c.Saw("a", 8)
		synctest.Wait()
		c.Drop("a")
		w.gate <- struct{}{}
		synctest.Wait()
		require.False(t, holds(c, w, "a"))
		close(w.gate)
		for _, f := range []*bool{&w.fail, &w.spoil} {
			*f = true
			c.Saw("b", 8)
			synctest.Wait()
			*f = false
			require.False(t, holds(c, w, "b"))
		}
		c.Saw("d", 8)
		synctest.Wait()
		require.True(t, holds(c, w, "d"), "there is still a block")
	})
}

func TestQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.gate = make(chan struct{})
		c := w.cache(small(64, 1))
		for i := range 2 { // One for each worker.
			c.Saw(fmt.Sprint(i), 8)
			synctest.Wait()
		}
		for i := range 20 {
			c.Saw(fmt.Sprint("x", i), 8)
			c.Saw(fmt.Sprint("x", i), 8)
		}
		require.Len(t, c.filling, 6)
		require.Equal(t, uint64(32), c.Stats().Dropped)
		c.Close()
		c.Close()
		c.Saw("late", 8)
		require.False(t, holds(c, w, "0"))
	})
}

// A block that is being copied from is not given to another object.
func TestBlocksInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		c := w.cache(small(1, 1))
		defer c.Close()
		c.Saw("a", 8)
		synctest.Wait()
		require.True(t, c.View("a", w.object("a"), func(b []byte) bool {
			c.Saw("b", 8)
			c.Drop("a")
			synctest.Wait()
			return bytes.Equal(b, bytesOf("a", 0))
		}))
		require.False(t, holds(c, w, "b"))
		c.Saw("b", 8)
		synctest.Wait()
		require.True(t, holds(c, w, "b"))
	})
}

// TestCacheServesWhatIsThere: whatever happens, the bytes are those of the object as it is.
func TestCacheServesWhatIsThere(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld()
		c := w.cache(small(rapid.IntRange(1, 4).Draw(rt, "blocks"), rapid.IntRange(1, 3).Draw(rt, "threshold")))
		defer c.Close()
		key := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"})
		view := func(t *rapid.T) {
			k := key.Draw(t, "key")
			o := w.object(k)
			c.View(k, o, func(b []byte) bool {
				require.Equal(t, string(bytesOf(k, o.Checksum.Value)), string(b))
				return true
			})
			c.Saw(k, 8)
		}
		rt.Repeat(map[string]func(*rapid.T){
			"view":   view,
			"again":  view,
			"change": func(t *rapid.T) { w.change(key.Draw(t, "key")) },
			"drop":   func(t *rapid.T) { c.Drop(key.Draw(t, "key")) },
			"clear":  func(t *rapid.T) { c.Clear() },
		})
		require.LessOrEqual(rt, c.Stats().Bytes, c.cfg.Size)
	})
}

func TestSketchAges(t *testing.T) {
	c := New(DefaultConfig(), nil)
	defer c.Close()
	for range 300 {
		c.sketch.add("hot")
	}
	require.Equal(t, 255, c.sketch.add("hot"))
	for i := range 8 * aging {
		c.sketch.add(fmt.Sprint(i % 100_000))
	}
	require.Less(t, c.sketch.add("hot"), 200)
}

func TestConfig(t *testing.T) {
	require.NoError(t, DefaultConfig().Validate(), "off")
	for _, f := range []func(*Config){
		func(c *Config) { c.BlockSize = 0 }, func(c *Config) { c.BlockSize = c.Size + 1 }, func(c *Config) { c.Threshold = 0 },
		func(c *Config) { c.Threshold = 256 }, func(c *Config) { c.Workers = 0 }, func(c *Config) { c.Queue = 0 },
	} {
		cfg := DefaultConfig()
		cfg.Size = 64 << 20
		require.NoError(t, cfg.Validate())
		f(&cfg)
		require.True(t, errs.Is(cfg.Validate(), errs.InvalidParams))
	}
}

// The least recently used object without readers gives way, not one in use.
func TestObjectsInUseStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		c := w.cache(small(2, 1))
		defer c.Close()
		for _, k := range []string{"a", "b"} {
			c.Saw(k, 8)
			synctest.Wait()
		}
		c.View("a", w.object("a"), func([]byte) bool {
			require.True(t, holds(c, w, "b"), "a is the older one now")
			c.Saw("d", 8)
			synctest.Wait()
			return true
		})
		require.True(t, holds(c, w, "a"))
		require.True(t, holds(c, w, "d"))
		require.False(t, holds(c, w, "b"))
	})
}

package hotcache

import (
	"container/list"
	"context"
	"hash/maphash"
	"sync"

	"github.com/mooncake-go/mooncake/core/model"
)

// Stamp distinguishes values of one key. Two values with the same stamp have the same bytes.
type Stamp struct {
	Size     uint64
	Checksum model.Checksum
	// Replica is the ID of the copy that was read; a value that is put anew has others.
	Replica uint64
}

// of reports whether o, as the master describes it now, is the value of the stamp.
func (s Stamp) of(o *model.Object) bool {
	if s.Size != o.Size || s.Checksum != o.Checksum {
		return false
	}
	for i := range o.Replicas {
		if o.Replicas[i].ID == s.Replica {
			return true
		}
	}
	return false
}

// Load reads a key's value into dst, which is as long as a block, and returns its stamp, or
// why it is not available. spoilt: dst may still be written to, so it is never used again.
type Load func(ctx context.Context, key model.Key, dst []byte) (s Stamp, spoilt bool, err error)

// Stats counts what a cache did.
type Stats struct {
	// Hits are served reads, Fills admitted objects, and Dropped those that were not admitted
	// because the queue was full.
	Hits, Fills, Dropped uint64
	// Bytes is the memory of the blocks made so far.
	Bytes uint64
}

// Cache is the cache of one client. It is safe for concurrent use.
type Cache struct {
	cfg    Config
	load   Load
	ctx    context.Context
	stop   context.CancelFunc
	queue  chan string
	worker sync.WaitGroup

	mu      sync.Mutex
	started bool
	closed  bool
	sketch  sketch
	byKey   map[model.Key]*entry
	lru     list.List // of *entry, the most recent first
	free    [][]byte
	made    int // blocks made so far
	// filling are the keys that wait for a worker or are read by one; false when the key
	// was dropped meanwhile.
	filling map[model.Key]bool
	stats   Stats
}

// entry is an object in the cache. Its block is freed once it is neither in the cache nor in use by
// a reader.
type entry struct {
	key   model.Key
	stamp Stamp
	block []byte
	at    *list.Element // nil once it has left the cache
	users int
}

// New makes a cache of a valid configuration. It acquires memory and starts its workers with
// the first object.
func New(cfg Config, load Load) *Cache {
	c := &Cache{
		cfg: cfg, load: load, queue: make(chan string, cfg.Queue), byKey: map[model.Key]*entry{}, filling: map[model.Key]bool{},
		sketch: sketch{seed: maphash.MakeSeed()},
	}
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c
}

// Close ends the workers and forgets everything. Repeatable.
func (c *Cache) Close() {
	c.mu.Lock()
	c.closed = true
	clear(c.byKey)
	c.lru.Init()
	c.free = nil
	c.mu.Unlock()
	c.stop()
	c.worker.Wait()
}

// Stats returns the counts.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Bytes = uint64(c.made) * c.cfg.BlockSize
	return s
}

// View calls f with the bytes of a key's value if they are in the cache and belong to o, the object
// as the master describes it now. f must not use the bytes after it returned. It reports whether it
// used them.
func (c *Cache) View(key model.Key, o *model.Object, f func([]byte) bool) bool {
	c.mu.Lock()
	e := c.byKey[key]
	if e == nil || !e.stamp.of(o) {
		if e != nil {
			c.out(e)
		}
		c.mu.Unlock()
		return false
	}
	e.users++
	c.lru.MoveToFront(e.at)
	c.mu.Unlock()
	ok := f(e.block[:e.stamp.Size])
	c.mu.Lock()
	defer c.mu.Unlock()
	e.users--
	c.giveBack(e)
	if ok {
		c.stats.Hits++
	}
	return ok
}

// Drop forgets a key: it was put, replaced or removed here.
func (c *Cache) Drop(key model.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.byKey[key]; e != nil {
		c.out(e)
	}
	if _, ok := c.filling[key]; ok {
		c.filling[key] = false
	}
}

// Clear forgets every key.
func (c *Cache) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.byKey {
		c.out(e)
	}
	for k := range c.filling {
		c.filling[k] = false
	}
}

// out removes an entry from the cache. The caller holds c.mu.
func (c *Cache) out(e *entry) {
	if e.at == nil {
		return
	}
	c.lru.Remove(e.at)
	e.at = nil
	delete(c.byKey, e.key)
	c.giveBack(e)
}

// giveBack frees the block of an entry that is no longer needed. The caller holds c.mu.
func (c *Cache) giveBack(e *entry) {
	if e.at == nil && e.users == 0 && e.block != nil {
		if !c.closed {
			c.free = append(c.free, e.block)
		}
		e.block = nil
	}
}

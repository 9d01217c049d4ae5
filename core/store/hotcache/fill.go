package hotcache

import "github.com/mooncake-go/mooncake/core/model"

// Saw notes that a value was read from another node. After enough reads the cache admits it.
func (c *Cache) Saw(key model.Key, size uint64) {
	if size > c.cfg.BlockSize {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.sketch.add(key) < c.cfg.Threshold || c.byKey[key] != nil {
		return
	}
	if _, ok := c.filling[key]; ok {
		return
	}
	select {
	case c.queue <- key:
		c.filling[key] = true
	default:
		c.stats.Dropped++
		return
	}
	if !c.started {
		c.started = true
		for range c.cfg.Workers {
			c.worker.Go(c.work)
		}
	}
}

// work fills queued keys until the cache is closed.
func (c *Cache) work() {
	for {
		select {
		case <-c.ctx.Done():
			return
		case key := <-c.queue:
			c.fill(key)
		}
	}
}

// fill reads a value into a block and enters it, unless the key was dropped meanwhile.
func (c *Cache) fill(key model.Key) {
	block := c.block()
	if block == nil {
		c.mu.Lock()
		delete(c.filling, key)
		c.mu.Unlock()
		return
	}
	stamp, spoilt, err := c.load(c.ctx, key, block)
	c.mu.Lock()
	defer c.mu.Unlock()
	wanted := c.filling[key]
	delete(c.filling, key)
	e := &entry{key: key, stamp: stamp, block: block}
	if spoilt {
		c.made--
		return
	}
	if err != nil || !wanted || c.closed || c.byKey[key] != nil || stamp.Size > uint64(len(block)) {
		c.giveBack(e)
		return
	}
	c.byKey[key] = e
	e.at = c.lru.PushFront(e)
	c.stats.Fills++
}

// block returns a block to fill: a free one, a new one, or that of the least recently used object
// without readers. It returns nil if there is none.
func (c *Cache) block() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.free) == 0 && uint64(c.made+1)*c.cfg.BlockSize > c.cfg.Size {
		for el := c.lru.Back(); el != nil; el = el.Prev() {
			if e := el.Value.(*entry); e.users == 0 {
				c.out(e)
				break
			}
		}
	}
	if n := len(c.free); n > 0 {
		b := c.free[n-1]
		c.free = c.free[:n-1]
		return b
	}
	if c.closed || uint64(c.made+1)*c.cfg.BlockSize > c.cfg.Size {
		return nil
	}
	c.made++
	return make([]byte, c.cfg.BlockSize)
}

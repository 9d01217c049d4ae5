package worker_test

import (
	"context"
	"sync"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Pool keeps real bytes in memory for a fixed number of objects and evicts the one that
// was read or put least recently. It is safe for concurrent use.
type Pool struct {
	mu       sync.Mutex
	capacity int
	objects  map[string]*object
	clock    uint64
	evicted  int
	pages    int
	most     int
}

type object struct {
	data []byte
	used uint64
}

// NewPool makes a Pool for capacity objects.
func NewPool(capacity int) *Pool {
	return &Pool{capacity: capacity, objects: map[string]*object{}}
}

// Evictions counts the objects evicted so far.
func (p *Pool) Evictions() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.evicted
}

// Buffers returns how many pages are handed out now and how many were at most.
func (p *Pool) Buffers() (now, most int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pages, p.most
}

// Drop forgets every object for which lost holds, as a node that dies does.
func (p *Pool) Drop(lost func(key string) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k := range p.objects {
		if lost(k) {
			delete(p.objects, k)
		}
	}
}

// Exist implements worker.Pool. It does not make an object more recent.
func (p *Pool) Exist(ctx context.Context, keys []string) ([]bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]bool, len(keys))
	for i, k := range keys {
		_, out[i] = p.objects[k]
	}
	return out, ctx.Err()
}

// GetInto implements worker.Pool.
func (p *Pool) GetInto(ctx context.Context, keys []string, dst [][]byte) []error {
	return p.each(ctx, keys, func(i int, o *object) error {
		switch {
		case o == nil:
			return errs.New(errs.ObjectNotFound, "pool: get", "%q is not there", keys[i])
		case len(o.data) != len(dst[i]):
			return errs.New(errs.InvalidParams, "pool: get", "%q has %d bytes, the buffer %d", keys[i], len(o.data), len(dst[i]))
		}
		copy(dst[i], o.data)
		p.touch(o)
		return nil
	})
}

// PutFrom implements worker.Pool. An object that is there keeps its rank.
func (p *Pool) PutFrom(ctx context.Context, keys []string, src [][]byte) []error {
	return p.each(ctx, keys, func(i int, o *object) error {
		if o != nil {
			return errs.New(errs.ObjectAlreadyExists, "pool: put", "%q is there", keys[i])
		}
		if p.capacity == 0 {
			return errs.New(errs.NoAvailableHandle, "pool: put", "no space for %q", keys[i])
		}
		if len(p.objects) == p.capacity {
			p.evict()
		}
		o = &object{data: append([]byte(nil), src[i]...)}
		p.touch(o)
		p.objects[keys[i]] = o
		return nil
	})
}

func (p *Pool) each(ctx context.Context, keys []string, do func(i int, o *object) error) []error {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]error, len(keys))
	for i, k := range keys {
		if out[i] = ctx.Err(); out[i] == nil {
			out[i] = do(i, p.objects[k])
		}
	}
	return out
}

func (p *Pool) touch(o *object) {
	p.clock++
	o.used = p.clock
}

func (p *Pool) evict() {
	oldest := ""
	for k, o := range p.objects {
		if oldest == "" || o.used < p.objects[oldest].used {
			oldest = k
		}
	}
	delete(p.objects, oldest)
	p.evicted++
}

// Buffer implements worker.Pool.
func (p *Pool) Buffer(n, size int) ([][]byte, func(), error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pages += n
	p.most = max(p.most, p.pages)
	out := make([][]byte, n)
	for i := range out {
		out[i] = make([]byte, size)
	}
	var once sync.Once
	return out, func() {
		once.Do(func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.pages -= n
		})
	}, nil
}

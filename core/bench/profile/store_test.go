package profile

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/model"
)

// pool is a client with a pool of its own.
type pool struct {
	mu         sync.Mutex
	objects    map[model.Key][]byte
	registered map[*byte]bool
	puts, gets map[int]int // by the number of keys
	wrong      bool        // gives other bytes back
	fail       error
}

func newPool() *pool {
	return &pool{objects: map[model.Key][]byte{}, registered: map[*byte]bool{}, puts: map[int]int{}, gets: map[int]int{}}
}

func (p *pool) RegisterBuffer(_ context.Context, mem []byte, _ string) error {
	p.registered[unsafe.SliceData(mem)] = true
	return nil
}

func (p *pool) UnregisterBuffer(_ context.Context, mem []byte) error {
	delete(p.registered, unsafe.SliceData(mem))
	return nil
}

func (p *pool) BatchPut(_ context.Context, keys []model.Key, values [][]byte, _ model.ReplicateConfig) []error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.puts[len(keys)]++
	out := make([]error, len(keys))
	for i, k := range keys {
		if _, ok := p.objects[k]; ok {
			out[i] = errors.New("a put of a key that is there measures nothing: " + k)
		}
		p.objects[k] = values[i]
	}
	return append(out, p.fail)
}

func (p *pool) BatchGetInto(_ context.Context, keys []model.Key, dst [][]byte) []model.Result[int] {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gets[len(keys)]++
	out := make([]model.Result[int], len(keys))
	for i, k := range keys {
		out[i].Value = copy(dst[i], p.objects[k])
		if p.wrong {
			dst[i][len(dst[i])-1]++
		}
	}
	return out
}

func (p *pool) BatchRemove(_ context.Context, keys []model.Key, _ bool) []error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range keys {
		delete(p.objects, k)
	}
	return nil
}

// TestStoreLoads: every shape by every thread, within the memory that there is, and nothing is left.
func TestStoreLoads(t *testing.T) {
	p := newPool()
	s, err := NewStore(t.Context(), p)
	require.NoError(t, err)
	assert.Len(t, p.registered, threads+1)
	set := len(p.objects)
	require.NoError(t, s.Puts().Run(t.Context(), time.Now()))
	require.NoError(t, s.Puts().Run(t.Context(), time.Now()), "with new keys")
	assert.Equal(t, set, len(p.objects), "what was put is removed") // Not Len, which shows all of them.
	require.NoError(t, s.Gets().Run(t.Context(), time.Now()))
	total := 0
	for _, sh := range shapes {
		assert.Equal(t, 1+2*threads, p.puts[sh.count])
		assert.Equal(t, threads, p.gets[sh.count])
		assert.LessOrEqual(t, sh.bytes(), largest)
		total += sh.bytes()
	}
	assert.Less(t, total+threads*largest, PoolBytes)
	require.NoError(t, s.Close(t.Context()))
	assert.Zero(t, len(p.objects))
	assert.Empty(t, p.registered)
}

func TestStoreLoadsFail(t *testing.T) {
	p := newPool()
	s, err := NewStore(t.Context(), p)
	require.NoError(t, err)
	p.wrong = true
	assert.ErrorContains(t, s.Gets().Run(t.Context(), time.Now()), "other bytes")
	p.objects = map[model.Key][]byte{}
	assert.ErrorContains(t, s.Gets().Run(t.Context(), time.Now()), "one has 0")
	p.fail = errors.New("no space")
	assert.ErrorIs(t, s.Puts().Run(t.Context(), time.Now()), p.fail)
	require.NoError(t, s.Close(t.Context()))

	_, err = NewStore(t.Context(), p)
	assert.ErrorIs(t, err, p.fail)
	assert.Empty(t, p.registered, "it leaves nothing behind")
}

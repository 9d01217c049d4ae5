package local

import (
	"sync"

	"github.com/mooncake-go/mooncake/core/store/local/internal/shm"
)

// lent is the memory that a service lends objects in, mapped for reading. It is unmapped
// when the link is gone and the last object is released.
type lent struct {
	mu      sync.Mutex
	mapping *shm.Mapping
	users   int // the link and the objects held
}

// take returns [off, off+n) and counts a user; nil when it is not within the memory or the
// memory is gone.
func (m *lent) take(off, n uint64) []byte {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if size := uint64(len(m.mapping.Bytes())); m.users == 0 || off > size || n > size-off {
		return nil
	}
	m.users++
	return m.mapping.Bytes()[off:][:n:n]
}

func (m *lent) drop() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.users--; m.users == 0 {
		_ = m.mapping.Close() // Nobody can do anything about it.
	}
}

// Buffer is an object in memory that is not the caller's own, until Release.
type Buffer struct {
	mem     []byte
	release func()
}

// Bytes returns the object, not to be written to; nil after Release.
func (b *Buffer) Bytes() []byte { return b.mem }

// Release gives the memory back; it must not be used any more. Releasing twice, or nil, does
// nothing.
func (b *Buffer) Release() {
	if b == nil || b.release == nil {
		return
	}
	release := b.release
	b.mem, b.release = nil, nil
	release()
}

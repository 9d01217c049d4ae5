package transportkit

import (
	"container/list"
	"io"
	"sync"
)

// Greetings bounds the accepted connections that have not said hello yet. Beyond Most the oldest is
// closed, so that peers that say nothing, however many, do not keep others out. Set Most before the
// first use. Safe for concurrent use.
type Greetings struct {
	Most int

	mu   sync.Mutex
	open list.List // of io.Closer, the oldest first
}

// Begin notes a connection. shed reports whether another was closed for it. The caller calls over
// once the connection has said hello or is closed; repeatable.
func (g *Greetings) Begin(conn io.Closer) (over func(), shed bool) {
	g.mu.Lock()
	e := g.open.PushBack(conn)
	var oldest io.Closer
	if g.open.Len() > g.Most {
		oldest, _ = g.open.Remove(g.open.Front()).(io.Closer) //nolint:errcheck // Nothing else is in the list.
	}
	g.mu.Unlock()
	if oldest != nil {
		_ = oldest.Close() // The goroutine that serves it notices.
	}
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.open.Remove(e)
	}, oldest != nil
}

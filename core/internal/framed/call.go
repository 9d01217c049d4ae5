package framed

import (
	"context"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/internal/callctx"
)

const (
	// inline is the largest request, in bytes, that is worked on where it was read. Below, to start a
	// goroutine costs more than the call; above, the next ones should be read meanwhile.
	inline = 1 << 10
	// MaxKept is the largest buffer, in bytes, that is kept for the next call.
	MaxKept = 256 << 10
)

// Call is one call of a client.
type Call struct {
	Frame
	// In is the body of the request, Out the frame of the answer. Both are of another call once the answer is sent.
	In, Out []byte
	// Began is when the request was there.
	Began time.Time

	conn *Conn
	ctx  callctx.Call
	at   int // its place in conn.running
	// counted is how many bytes of the request the server's budget holds memory for.
	counted int
}

var callPool = sync.Pool{New: func() any { return new(Call) }}

func (c *Conn) newCall(f Frame) *Call {
	j := callPool.Get().(*Call) //nolint:forcetypeassert // Nothing else is in the pool.
	j.Frame, j.conn = f, c
	return j
}

// Context ends when the client gives the call up, or no more time is left for it.
func (j *Call) Context() context.Context { return &j.ctx }

// Alone reports whether no other call of the connection is in progress.
func (j *Call) Alone() bool { return len(j.conn.slots) == 1 }

// free gives back a call whose context no goroutine uses any more.
func (j *Call) free() {
	if j.counted > 0 {
		j.conn.s.Budget.Release(j.counted)
	}
	if !j.ctx.Finish() {
		return
	}
	if cap(j.In) > MaxKept {
		j.In = nil
	}
	if cap(j.Out) > MaxKept {
		j.Out = nil
	}
	j.Frame, j.conn, j.counted = Frame{}, nil, 0
	callPool.Put(j)
}

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

// Frame is what the header of a frame says.
type Frame struct {
	// Number is the one that the client gave the call.
	Number uint32
	// Function is which one is called, for the protocol to say.
	Function uint32
	// Wait is how long the caller waits for the answer, 0 for no limit.
	Wait time.Duration
	// Body is how many bytes of request follow, Attached how many after those that no call uses.
	Body, Attached int
	// GiveUp says that the frame is no call: it cancels the one with the number.
	GiveUp bool
}

// Call is one call of a client.
type Call struct {
	Frame
	// In is the body of the request, Out the frame of the answer. Both are of another call once the answer is sent.
	In, Out []byte
	// Began is when the request was there.
	Began time.Time

	ctx   callctx.Call
	slots chan struct{} // one token for each call of the connection that is in progress
	at    int           // its place in conn.running
	// budget holds memory for the request, nil where it does not.
	budget Budget
}

var callPool = sync.Pool{New: func() any { return new(Call) }}

func newCall(f Frame, slots chan struct{}) *Call {
	j := callPool.Get().(*Call) //nolint:forcetypeassert // Nothing else is in the pool.
	j.Frame, j.slots = f, slots
	return j
}

// Context ends when the client gives the call up, or no more time is left for it.
func (j *Call) Context() context.Context { return &j.ctx }

// Alone reports whether no other call of the connection is in progress.
func (j *Call) Alone() bool { return len(j.slots) == 1 }

// free gives back a call whose context no goroutine uses any more.
func (j *Call) free() {
	if j.budget != nil {
		j.budget.Release(j.Body)
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
	j.Frame, j.slots, j.budget = Frame{}, nil, nil
	callPool.Put(j)
}

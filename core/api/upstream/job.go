package upstream

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/internal/callctx"
)

const (
	// inline is the largest request, in bytes, that is worked on where it was read. Below, to start a
	// goroutine costs more than the call; above, the next ones should be read meanwhile.
	inline = 1 << 10
	// maxKept is the largest buffer that is kept for the next call.
	maxKept = 256 << 10
)

// job is one call.
type job struct {
	s        *shared
	peer     *Peer
	seq      uint32
	function uint32
	buf      []byte // the request
	out      []byte // the frame of the answer
	ctx      callctx.Call
	began    time.Time
	at       int // its place in conn.running
	// counted is how many bytes of the request the server's budget holds memory for.
	counted int
}

var jobs = sync.Pool{New: func() any { return new(job) }}

func takeJob() *job { return jobs.Get().(*job) } //nolint:forcetypeassert // Nothing else is in the pool.

// free gives back a call whose context no goroutine uses any more.
func (j *job) free() {
	if j.counted > 0 {
		j.s.o.Budget.Release(j.counted)
	}
	if !j.ctx.Finish() {
		return
	}
	if cap(j.buf) > maxKept {
		j.buf = nil
	}
	if cap(j.out) > maxKept {
		j.out = nil
	}
	j.s, j.peer, j.counted = nil, nil, 0
	jobs.Put(j)
}

// answer makes the frame of the answer, or says why there is none.
func (j *job) answer() (refused *Refused) {
	s := j.s
	j.out = append(j.out[:0], blank[:]...)
	defer func() {
		if p := recover(); p != nil {
			s.o.Logger.ErrorContext(&j.ctx, "a call of an upstream client panicked; it is answered with an error, the master goes on",
				slog.String("function", s.o.called(j.function)), slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
			refused = &Refused{Code: CodeInternal, Message: s.o.called(j.function) + " failed on a fault of the master's own; its log says more"}
		}
	}()
	out, err := s.o.Handler.Answer(&j.ctx, j.peer, j.function, j.buf, j.out)
	switch {
	case errors.As(err, &refused):
		return refused
	case err != nil:
		return &Refused{Code: CodeInternal, Message: s.o.called(j.function) + " failed: " + err.Error()}
	case len(out)-answerHeader > s.o.Frame:
		return &Refused{Code: CodeTooLarge, Message: fmt.Sprintf("the answer to %s has %d bytes, at most %d are allowed: ask for fewer keys at once",
			s.o.called(j.function), len(out)-answerHeader, s.o.Frame)}
	}
	j.out = out
	seal(out, j.seq, answerOK)
	return nil
}

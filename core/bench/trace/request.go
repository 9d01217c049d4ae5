package trace

import (
	"io"
	"time"
)

// NoSession is the Session of a request whose conversation is not known.
const NoSession = -1

// Request is one prompt that an inference engine looks up in the pool.
type Request struct {
	// Seq counts the requests of one source from 0.
	Seq int
	// Timestamp is when the request arrives, from the start of the load.
	Timestamp time.Duration
	// Session is the conversation it belongs to, NoSession where the source cannot tell.
	Session int
	// InputTokens and OutputTokens are the lengths of the prompt and of the answer.
	InputTokens, OutputTokens int
	// Blocks are the ids of the prompt's blocks, in order. The same id means the same
	// block after the same prefix. The slice belongs to the caller.
	Blocks []uint64
}

// Source yields requests in order, io.EOF after the last. It is for one goroutine.
type Source interface {
	Next() (Request, error)
}

// Limit ends src after n requests.
func Limit(src Source, n int) Source { return &limited{src: src, left: n} }

type limited struct {
	src  Source
	left int
}

// Next implements Source.
func (l *limited) Next() (Request, error) {
	if l.left <= 0 {
		return Request{}, io.EOF
	}
	l.left--
	return l.src.Next()
}

// FromSlice is a source of requests that are already in memory.
func FromSlice(reqs []Request) Source { return &fixed{reqs: reqs} }

type fixed struct{ reqs []Request }

// Next implements Source.
func (f *fixed) Next() (Request, error) {
	if len(f.reqs) == 0 {
		return Request{}, io.EOF
	}
	r := f.reqs[0]
	f.reqs = f.reqs[1:]
	return r, nil
}

package workload

import (
	"github.com/mooncake-go/mooncake/core/bench/trace"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Split yields the share of one worker: every request of a session goes to the same
// worker, so that turns stay in order, and sessions are dealt out in turn. The shares of
// workers 0 to workers-1 over equal sources are disjoint and together complete.
//
// Where the source does not tell sessions, a request counts as the next turn of the
// session whose latest prompt it goes on from. That takes about 40 bytes of memory for
// each session.
func Split(src trace.Source, worker, workers int) (trace.Source, error) {
	if workers < 1 || worker < 0 || worker >= workers {
		return nil, errs.New(errs.InvalidParams, "workload: split", "worker %d of %d does not exist", worker, workers)
	}
	return &share{src: src, worker: worker, workers: workers, tails: make(map[uint64]int)}, nil
}

type share struct {
	src             trace.Source
	worker, workers int
	// tails leads from the end of the latest prompt of each session to the session.
	tails   map[uint64]int
	guessed int
}

// Next implements trace.Source.
func (s *share) Next() (trace.Request, error) {
	for {
		r, err := s.src.Next()
		if err != nil {
			return trace.Request{}, err
		}
		id := r.Session
		if id == trace.NoSession {
			id = s.session(r.Blocks)
		}
		if id%s.workers == s.worker {
			return r, nil
		}
	}
}

// session recognises a conversation by the last whole block of the prompt before. The
// very last block of a prompt is partly filled and has another id one turn later. An end
// is good for one turn, so that a short prompt, whose end is part of a shared system
// prompt, does not draw every session to itself.
func (s *share) session(blocks []uint64) int {
	id := -1
	for i := len(blocks) - 1; i >= 0 && id < 0; i-- {
		if known, ok := s.tails[blocks[i]]; ok {
			id = known
			delete(s.tails, blocks[i])
		}
	}
	if id < 0 {
		id = s.guessed
		s.guessed++
	}
	if n := len(blocks); n >= 2 {
		s.tails[blocks[n-2]] = id
	}
	return id
}

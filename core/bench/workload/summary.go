package workload

import (
	"errors"
	"io"

	"github.com/mooncake-go/mooncake/core/bench/trace"
)

// Summary says what a load asks of a pool.
type Summary struct {
	Requests int `json:"requests"`
	// Blocks counts the blocks of all requests, Distinct the different ones: the working
	// set. Longest is the longest request.
	Blocks   int `json:"blocks"`
	Distinct int `json:"distinct_blocks"`
	Longest  int `json:"longest_request"`
}

// Summarize reads src to its end. It takes about 40 bytes of memory for each distinct
// block.
func Summarize(src trace.Source) (Summary, error) {
	var s Summary
	seen := make(map[uint64]struct{})
	for {
		r, err := src.Next()
		if errors.Is(err, io.EOF) {
			return s, nil
		}
		if err != nil {
			return s, err
		}
		s.Requests++
		s.Blocks += len(r.Blocks)
		s.Longest = max(s.Longest, len(r.Blocks))
		for _, b := range r.Blocks {
			seen[b] = struct{}{}
		}
		s.Distinct = len(seen)
	}
}

package transfer

import "github.com/mooncake-go/mooncake/sdk/x/crc32c"

// sum is what is known of a request's checksum: pieces, in any order, each shifted by what
// follows it.
type sum struct {
	value   uint32
	covered int // bytes
}

// add takes in the checksum of n bytes that rest bytes of the request follow.
func (s *sum) add(value uint32, n, rest int) {
	s.value ^= crc32c.Shift(value, uint64(rest))
	s.covered += n
}

// result is how the task ended, which it has.
func (t *task) result() Result {
	r := Result{Err: t.err, Done: t.done}
	if r.Summed = t.req.Sum && t.err == nil && t.sum.covered == len(t.req.Local); r.Summed {
		r.Sum = t.sum.value
	}
	return r
}

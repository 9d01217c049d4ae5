package request

import (
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

// checksum collects the checksum of a request: those of ranges, in any order, each shifted by the bytes
// that follow it.
type checksum struct {
	value   uint32
	covered int // bytes
}

// Add takes in the checksum of n bytes that rest bytes of the request follow.
func (s *checksum) Add(value uint32, n, rest int) {
	s.value ^= crc32c.Shift(value, uint64(rest))
	s.covered += n
}

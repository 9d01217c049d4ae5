package hotcache

import "hash/maphash"

const (
	rows = 4
	// columns of a row: enough that a few thousand hot keys rarely meet in all rows.
	columns = 1 << 14
	// aging is the number of counts after which all counters are halved, so that keys that were
	// hot long ago cool down.
	aging = 10 * columns
)

// sketch counts keys approximately, never too low, in constant memory. It is guarded by the
// cache's mutex.
type sketch struct {
	seed  maphash.Seed
	cells [rows][columns]uint8
	n     int
}

// add counts a key and returns its count.
func (s *sketch) add(key string) int {
	h := maphash.String(s.seed, key)
	lo, hi := uint32(h), uint32(h>>32)|1
	least := uint8(255)
	for i := range rows {
		c := &s.cells[i][(lo+uint32(i)*hi)%columns]
		if *c < 255 {
			*c++
		}
		least = min(least, *c)
	}
	if s.n++; s.n >= aging {
		s.n = 0
		for i := range s.cells {
			for j := range s.cells[i] {
				s.cells[i][j] /= 2
			}
		}
	}
	return int(least)
}

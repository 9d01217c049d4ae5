package crc32c

// Grains divide an object at multiples of a size, counted from the object's first byte. A range of
// the object begins lead bytes into its first grain, so its grains are the rest of that one, whole
// ones, and the beginning of the last. The functions here handle the checksum of each.

// GrainsOf returns how many grains of a size n bytes touch that begin lead bytes into one.
func GrainsOf(n, lead, size int) int { return (lead + n + size - 1) / size }

// SumGrains stores the checksum of each grain of b in sums, which has GrainsOf entries.
func SumGrains(sums []uint32, b []byte, lead, size int) {
	for i := 0; len(b) > 0; i++ {
		n := min(size-lead, len(b))
		sums[i] = Sum(b[:n])
		b, lead = b[n:], 0
	}
}

// CopyGrains is Copy that stores the checksum of each grain in sums, which has GrainsOf entries.
func CopyGrains(sums []uint32, dst, src []byte, lead, size int) {
	dst = dst[:len(src):len(dst)]
	stream := len(src) >= past // What counts is how much is moved in all.
	for i := 0; len(src) > 0; i++ {
		n := min(size-lead, len(src))
		sums[i] = copyPart(0, dst[:n], src[:n], stream)
		dst, src, lead = dst[n:], src[n:], 0
	}
}

// A Shifter is Shift by a fixed number of bytes, ten times as fast.
type Shifter [4][256]uint32

// NewShifter makes a Shifter by n bytes.
func NewShifter(n uint64) *Shifter {
	s := new(Shifter)
	for at := range s {
		for b := 1; b < len(s[at]); b++ {
			if low := b & -b; low == b {
				s[at][b] = Shift(uint32(b)<<(8*at), n)
			} else {
				s[at][b] = s[at][low] ^ s[at][b^low]
			}
		}
	}
	return s
}

// Shift shifts a.
func (s *Shifter) Shift(a uint32) uint32 {
	return s[0][a&0xff] ^ s[1][a>>8&0xff] ^ s[2][a>>16&0xff] ^ s[3][a>>24]
}

package crc32c

import (
	"hash/crc32"
	"math/bits"
)

// Polynomials over GF(2) modulo P, the polynomial of the CRC, are 32-bit numbers here, in the bit
// order of CRC-32C: the highest bit is the coefficient of x^0. P itself also has the term x^32.

// one is the polynomial 1.
const one = uint32(1) << 31

// Combine returns the checksum of A followed by B. It takes the checksums of both and the length of
// B in bytes.
func Combine(a, b uint32, lenB uint64) uint32 { return Shift(a, lenB) ^ b }

// Shift returns the contribution of A, whose checksum is a, to the checksum of A followed by n
// bytes. The checksum of several consecutive ranges is the exclusive or of theirs, each shifted by
// the number of bytes that follow it. The order of the shifts does not matter.
func Shift(a uint32, n uint64) uint32 {
	// Appending n bytes multiplies the polynomial by x^(8n); the two inversions of the
	// checksum cancel out.
	for n != 0 && a != 0 {
		a = multiply(a, squares[bits.TrailingZeros64(n)])
		n &= n - 1
	}
	return a
}

// squares[k] is x^(8*2^k).
var squares = func() (s [64]uint32) {
	s[0] = one >> 8
	for k := 1; k < len(s); k++ {
		s[k] = multiply(s[k-1], s[k-1])
	}
	return s
}()

// multiply multiplies two polynomials modulo P.
func multiply(a, b uint32) uint32 {
	var p uint32
	for ; a != 0; a <<= 1 {
		p ^= b & -(a >> 31)
		b = b>>1 ^ crc32.Castagnoli&-(b&1)
	}
	return p
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

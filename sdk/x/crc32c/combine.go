package crc32c

import (
	"hash/crc32"
	"math/bits"
)

// Polynomials over GF(2) modulo the CRC's, P, are numbers of 32 bits here, as CRC-32C has
// them: the highest bit is the coefficient of x^0, and P itself has x^32 besides.

// one is the polynomial 1.
const one = uint32(1) << 31

// Combine returns the checksum of A followed by B from those of A and B and the length of
// B in bytes.
func Combine(a, b uint32, lenB uint64) uint32 { return Shift(a, lenB) ^ b }

// Shift returns what the checksum of A adds to that of A followed by n bytes. The checksum of
// several pieces is the exclusive or of their own, each shifted by what follows it, in any
// order.
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

// power returns x^n modulo P.
func power(n uint) uint32 {
	p := one
	for square := one >> 1; n != 0; n >>= 1 {
		if n&1 != 0 {
			p = multiply(p, square)
		}
		square = multiply(square, square)
	}
	return p
}

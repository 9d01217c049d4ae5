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

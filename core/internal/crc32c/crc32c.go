// Package crc32c computes the checksum of objects: CRC-32C (Castagnoli), on several cores
// where the data is large.
package crc32c

import (
	"hash/crc32"
	"math/bits"
	"runtime"
	"sync"
)

// perCore is the least number of bytes that is worth a goroutine of its own.
const perCore = 2 << 20

// polynomial is Castagnoli's in reversed bit order.
const polynomial = crc32.Castagnoli

// Sum returns the checksum of b.
func Sum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(polynomial)) }

// SumParallel is Sum over up to GOMAXPROCS cores, fewer where b is small.
func SumParallel(b []byte) uint32 { return sumParts(b, min(runtime.GOMAXPROCS(0), len(b)/perCore)) }

// sumParts computes parts sums side by side and joins them.
func sumParts(b []byte, parts int) uint32 {
	if parts < 2 {
		return Sum(b)
	}
	size := (len(b) + parts - 1) / parts
	sums := make([]uint32, parts)
	var wg sync.WaitGroup
	for i := range parts {
		lo, hi := min(i*size, len(b)), min((i+1)*size, len(b))
		wg.Go(func() { sums[i] = Sum(b[lo:hi]) })
	}
	wg.Wait()
	all := sums[0]
	for i, s := range sums[1:] {
		lo, hi := min((i+1)*size, len(b)), min((i+2)*size, len(b))
		all = Combine(all, s, uint64(hi-lo))
	}
	return all
}

// Combine returns the checksum of A followed by B from those of A and B and the length of
// B in bytes.
func Combine(a, b uint32, lenB uint64) uint32 {
	// Appending n bytes multiplies the polynomial by x^(8n); the two inversions of the
	// checksum cancel out.
	return multiply(a, power(lenB)) ^ b
}

// multiply multiplies two polynomials over GF(2) modulo the CRC's; the coefficient of x^0
// is the highest bit.
func multiply(a, b uint32) uint32 {
	var p uint32
	for ; a != 0; a <<= 1 {
		if a&(1<<31) != 0 {
			p ^= b
		}
		b = b>>1 ^ polynomial&-(b&1)
	}
	return p
}

// power returns x^(8n) modulo the CRC's polynomial.
func power(n uint64) uint32 {
	p, square := uint32(1)<<31, uint32(1)<<(31-8) // x^0 and x^8
	for range bits.Len64(n) {
		if n&1 != 0 {
			p = multiply(p, square)
		}
		square = multiply(square, square)
		n >>= 1
	}
	return p
}

package crc32c

// The kernels that fold follow Gopal, Ozturk, Guilford, Wolrich, Feghali, Dixon and Karakoyunlu, "Fast
// CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction" (Intel, 2009), with
// registers of 512 and 256 bits.
//
// A run of 128 bits is a polynomial H*x^64 + L, whose first byte has the highest powers: H is the
// lower half of the run. With D more bits behind it, its value is H*x^(D+64) + L*x^D, and
// modulo P it stays the same when both powers are reduced to 32 bits. The result has 128 bits again
// and is added to the data that is D bits further on. That is folding. A kernel folds four
// registers side by side, so that D is the bits of the four, until less data than that is left. Then
// it folds the four registers into one, and the instruction for CRC-32C reduces that.
//
// In this bit order, multiplying two runs of 64 bits gives the product times x. The exponents of
// the factors are therefore one less. The factors are in the upper half of a word, where 32 bits
// stand for the same polynomial.

// factors are the numbers by which folding multiplies H and L. They depend on the distance.
type factors [2]uint64

func by(bits uint) factors {
	return factors{uint64(power(bits+64-1)) << 32, uint64(power(bits-1)) << 32}
}

// folds are the factors of a kernel. The assembly depends on their order.
type folds struct {
	four factors // by four registers
	one  factors // by one
}

var (
	by512 = folds{four: by(4 * 512), one: by(512)}
	by256 = folds{four: by(4 * 256), one: by(256)}
	// byBlock is for four registers of 128 bits.
	byBlock = by(4 * 128)
)

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

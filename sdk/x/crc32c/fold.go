package crc32c

// The kernel follows Gopal, Ozturk, Guilford, Wolrich, Feghali, Dixon and Karakoyunlu, "Fast
// CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction" (Intel, 2009), with
// registers of 512 bits.
//
// A run of 128 bits is a polynomial H*x^64 + L, whose first byte has the highest powers: H is
// the lower half of the register. With D more bits behind it, it is worth H*x^(D+64) + L*x^D,
// and the same modulo P when both powers are reduced to 32 bits. Their sum has 128 bits again
// and is added to the data that lies D bits further on. That is folding. It goes on with four
// registers side by side, D being their 2048 bits, until less than that is left; then the four
// become one, the four runs of that become one, and the instruction for CRC-32C reduces it.
//
// Multiplying two runs of 64 bits in this order of bits gives the product times x. Factors are
// therefore powers less one, in the upper half of a word, where 32 bits are the same
// polynomial.

// factors is what folding by some distance multiplies H and L with.
type factors [2]uint64

func by(bits uint) factors {
	return factors{uint64(power(bits+64-1)) << 32, uint64(power(bits-1)) << 32}
}

// folds are the factors of the kernel, which knows their places.
type folds struct {
	four  factors    // by four registers of 512 bits
	one   factors    // by one
	lanes [4]factors // each run of 128 bits of a register to its last, which stays as it is
}

var folding = folds{four: by(2048), one: by(512), lanes: [4]factors{by(384), by(256), by(128)}}

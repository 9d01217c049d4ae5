// Package content makes the bytes of KV-cache pages from the id of their block, and finds
// a page whose bytes are not those.
//
// Every 8-byte word of a page is a one-to-one function of the block id for a given size,
// seed and place, and all words of a page differ. So a page of another block is wrong in
// every whole word, words that changed places within a page are found, and a page of a run
// with another seed is wrong but for chance (1 in 2^64 for each word). The functions
// allocate nothing and are safe for concurrent use.
package content

import "encoding/binary"

const (
	// The inputs of neighbouring words are an odd step1 apart, those of words i places
	// apart step1*i modulo 2^64.
	step1 = 0x9e3779b97f4a7c15
	step2 = 2 * step1 % (1 << 64)
	step3 = 3 * step1 % (1 << 64)
	step4 = 4 * step1 % (1 << 64)
	step5 = 5 * step1 % (1 << 64)
	step6 = 6 * step1 % (1 << 64)
	step7 = 7 * step1 % (1 << 64)
	step8 = 8 * step1 % (1 << 64)

	mul   = 0xd6e8feb86659fd93 // odd
	unmul = 0xcfee444d8b59a89b // mul*unmul = 1 modulo 2^64

	mix1, unmix1 = 0xbf58476d1ce4e5b9, 0x96de1b173f119089
	mix2, unmix2 = 0x94d049bb133111eb, 0x319642b2d24d8ec3

	group = 64 // bytes made or checked at a time
)

// Fill writes the content of a block into page. len(page) is part of the content: a page
// of another size is no prefix of it.
func Fill(page []byte, id, seed uint64) {
	x := start(len(page), id, seed)
	for len(page) >= group {
		p := page[:group:group]
		binary.LittleEndian.PutUint64(p[0:], word(x))
		binary.LittleEndian.PutUint64(p[8:], word(x+step1))
		binary.LittleEndian.PutUint64(p[16:], word(x+step2))
		binary.LittleEndian.PutUint64(p[24:], word(x+step3))
		binary.LittleEndian.PutUint64(p[32:], word(x+step4))
		binary.LittleEndian.PutUint64(p[40:], word(x+step5))
		binary.LittleEndian.PutUint64(p[48:], word(x+step6))
		binary.LittleEndian.PutUint64(p[56:], word(x+step7))
		x += step8
		page = page[group:]
	}
	var last [8]byte
	for len(page) > 0 {
		binary.LittleEndian.PutUint64(last[:], word(x))
		page = page[copy(page, last[:]):]
		x += step1
	}
}

// Verify returns the offset of the first byte of page that is not the content of the
// block, -1 when all are.
func Verify(page []byte, id, seed uint64) int {
	x := start(len(page), id, seed)
	rest := page
	for len(rest) >= group {
		p := rest[:group:group]
		diff := binary.LittleEndian.Uint64(p[0:]) ^ word(x)
		diff |= binary.LittleEndian.Uint64(p[8:]) ^ word(x+step1)
		diff |= binary.LittleEndian.Uint64(p[16:]) ^ word(x+step2)
		diff |= binary.LittleEndian.Uint64(p[24:]) ^ word(x+step3)
		diff |= binary.LittleEndian.Uint64(p[32:]) ^ word(x+step4)
		diff |= binary.LittleEndian.Uint64(p[40:]) ^ word(x+step5)
		diff |= binary.LittleEndian.Uint64(p[48:]) ^ word(x+step6)
		diff |= binary.LittleEndian.Uint64(p[56:]) ^ word(x+step7)
		if diff != 0 {
			break
		}
		x += step8
		rest = rest[group:]
	}
	var want [8]byte
	for len(rest) > 0 {
		binary.LittleEndian.PutUint64(want[:], word(x))
		n := min(len(rest), len(want))
		for i := range n {
			if rest[i] != want[i] {
				return len(page) - len(rest) + i
			}
		}
		rest = rest[n:]
		x += step1
	}
	return -1
}

// Identify returns the block whose whole and unchanged content page is, under the same
// seed and size. ok is false when there is none, and for pages under 8 bytes.
func Identify(page []byte, seed uint64) (id uint64, ok bool) {
	if len(page) < 8 {
		return 0, false
	}
	x := unword(binary.LittleEndian.Uint64(page))
	id = unscramble(x) ^ origin(len(page), seed)
	return id, Verify(page, id, seed) < 0
}

// start is the input of the first word: one-to-one in id.
func start(size int, id, seed uint64) uint64 { return scramble(id ^ origin(size, seed)) }

func origin(size int, seed uint64) uint64 { return scramble(scramble(seed) + uint64(size)) }

// word and scramble are one-to-one; word is the cheaper and weaker of the two.
func word(x uint64) uint64 {
	x ^= x >> 32
	x *= mul
	return x ^ x>>32
}

func unword(x uint64) uint64 {
	x ^= x >> 32
	x *= unmul
	return x ^ x>>32
}

// scramble is the finalizer of the SplitMix64 generator.
func scramble(x uint64) uint64 {
	x = (x ^ x>>30) * mix1
	x = (x ^ x>>27) * mix2
	return x ^ x>>31
}

func unscramble(x uint64) uint64 {
	x = (x ^ x>>31 ^ x>>62) * unmix2
	x = (x ^ x>>27 ^ x>>54) * unmix1
	return x ^ x>>30 ^ x>>60
}

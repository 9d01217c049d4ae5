package crc32c

import "golang.org/x/sys/cpu"

const (
	woven = iota + 1
	wovenFold
	folded256
	folded512
)

// kernels lists those that this processor can run: it has the instructions, and the operating system
// saves the registers.
func kernels() []*kernel {
	x := &cpu.X86
	sse42 := x.HasSSE42 && x.HasSSE41
	wide := x.HasAVX512VPCLMULQDQ && x.HasPCLMULQDQ && sse42 // The name in x is older than VPCLMULQDQ for AVX2.
	var all []*kernel
	if sse42 {
		all = append(all, weaver("sse42", woven, 170, 0))
	}
	if sse42 && x.HasPCLMULQDQ {
		all = append(all, weaver("pclmul", wovenFold, 102, 64))
	}
	if wide && x.HasAVX2 {
		all = append(all, &kernel{name: "avx2", code: folded256, alone: true, least: least, block: 4 * 32})
	}
	if wide && x.HasAVX512F && x.HasAVX512BW && x.HasAVX512VL {
		all = append(all, &kernel{name: "avx512", code: folded512, alone: true, least: least, block: 4 * 64})
	}
	return all
}

// run processes n bytes at most, which are at least k.block. It returns the state of the CRC behind
// them and their number. It stores them at dst, a multiple of line, unless dst is nil; stream has the
// stores bypass the caches.
func (k *kernel) run(state uint32, dst, src *byte, n int, stream bool) (uint32, int) {
	switch k.code {
	case folded512:
		n = min(n, stretch) &^ (64 - 1)
		return fold512(state, dst, src, n, &by512, stream), n
	case folded256:
		n = min(n, stretch) &^ (32 - 1)
		return fold256(state, dst, src, n, &by256, stream), n
	case wovenFold:
		f, a, b, c := weaveFold(state, dst, src, k.steps, &byBlock, stream)
		return k.behind.Shift(k.behind.Shift(k.join(a, b, c))) ^ f, k.block // The fourth run is twice as long.
	default:
		_, a, b, c := weave(state, dst, src, k.steps, nil, stream)
		return k.join(a, b, c), k.block
	}
}

// fold256 and fold512 return the state of the CRC behind n more bytes, a multiple of the width of
// their registers and at least four of them. Unless dst is nil, they store the bytes there.
//
//go:noescape
func fold256(state uint32, dst, src *byte, n int, k *folds, stream bool) uint32

//go:noescape
func fold512(state uint32, dst, src *byte, n int, k *folds, stream bool) uint32

// weave copies three runs of 32 times steps bytes. It returns the states behind each: the first begins
// with state, and the others with 0. f and k have no meaning.
//
//go:noescape
func weave(state uint32, dst, src *byte, steps int, k *factors, stream bool) (f, a, b, c uint32)

// weaveFold is weave that also copies 64 times steps bytes behind the runs. f is the state of these.
//
//go:noescape
func weaveFold(state uint32, dst, src *byte, steps int, k *factors, stream bool) (f, a, b, c uint32)

// fence makes earlier stores that bypass the caches come before all later stores.
func fence()

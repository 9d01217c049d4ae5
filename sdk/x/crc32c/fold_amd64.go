package crc32c

import (
	"hash/crc32"
	"unsafe"

	"golang.org/x/sys/cpu"
)

// useKernel: the processor has what the kernel needs, and the system keeps its registers.
var useKernel = cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VL &&
	cpu.X86.HasAVX512VPCLMULQDQ && cpu.X86.HasPCLMULQDQ && cpu.X86.HasSSE42

// copyFold is CopyUpdate by the kernel, of at least `least` bytes. From past bytes on it stores
// past the caches.
func copyFold(crc uint32, dst, src []byte, past int) uint32 {
	// The kernel stores whole lines of the cache; past the caches there is no other way.
	if head := int(-uintptr(unsafe.Pointer(&dst[0])) % line); head > 0 {
		crc = copyPortable(crc, dst[:head], src[:head])
		dst, src = dst[head:], src[head:]
	}
	move := foldCopy
	if len(src) >= past {
		move = foldStream
	}
	for len(src) >= 4*line {
		n := min(len(src), stretch) &^ (line - 1)
		crc = ^move(^crc, &dst[0], &src[0], n, &folding)
		dst, src = dst[n:], src[n:]
	}
	n := copy(dst, src)
	return crc32.Update(crc, castagnoli, dst[:n])
}

// foldSum returns the state of the CRC after n more bytes, a multiple of 64 and at least 256.
//
//go:noescape
func foldSum(state uint32, src *byte, n int, k *folds) uint32

// foldCopy is foldSum that stores each register that it sums up. dst is a multiple of 64.
//
//go:noescape
func foldCopy(state uint32, dst, src *byte, n int, k *folds) uint32

// foldStream is foldCopy past the caches.
//
//go:noescape
func foldStream(state uint32, dst, src *byte, n int, k *folds) uint32

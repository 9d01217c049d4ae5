package crc32c

import (
	"hash/crc32"
	"unsafe"

	"golang.org/x/sys/cpu"
)

// useKernel reports whether the processor has the instructions that the kernel needs, and the
// operating system saves its registers.
var useKernel = cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VL &&
	cpu.X86.HasAVX512VPCLMULQDQ && cpu.X86.HasPCLMULQDQ && cpu.X86.HasSSE42

// copyFold is CopyUpdate with the kernel, for at least `least` bytes. From past bytes on, its
// stores bypass the caches.
func copyFold(crc uint32, dst, src []byte, past int) uint32 {
	// The kernel stores whole cache lines, as stores that bypass the caches must.
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

// foldCopy is foldSum that also stores to dst, a multiple of 64.
//
//go:noescape
func foldCopy(state uint32, dst, src *byte, n int, k *folds) uint32

// foldStream is foldCopy with stores that bypass the caches.
//
//go:noescape
func foldStream(state uint32, dst, src *byte, n int, k *folds) uint32

package crc32c

const (
	// least is the number of bytes from which on a kernel may pay for its setup.
	least = 512
	// stretch is the most bytes that one call of a kernel processes: neither the scheduler nor the
	// garbage collector can interrupt it.
	stretch = 1 << 20
	// line is the size of a cache line. Copies of kernels begin at one, as stores that bypass the
	// caches must.
	line = 64
)

// kernel is code in assembly for one kind of processor.
type kernel struct {
	name string
	code int // what run does
	// alone reports whether the kernel computes checksums without a copy, too.
	alone bool
	// From least bytes on the kernel is faster than two passes. It processes at least block bytes.
	least, block int
	// steps and behind are of kernels that weave: the steps of a call, and the shift by a run.
	steps  int
	behind *Shifter
}

package crc32c

import "golang.org/x/sys/cpu"

// kernels lists those that this processor can run.
func kernels() []*kernel {
	if !cpu.ARM64.HasCRC32 {
		return nil
	}
	return []*kernel{weaver("crc32", 0, 170, 0)}
}

// run copies k.block bytes. It returns the state of the CRC behind them and their number. The kernel has no stores that bypass the caches, so stream has no effect.
func (k *kernel) run(state uint32, dst, src *byte, _ int, _ bool) (uint32, int) {
	a, b, c := weave(state, dst, src, k.steps)
	return k.join(a, b, c), k.block
}

// weave copies three runs of 32 times steps bytes. It returns the states behind each: the first begins
// with state, and the others with 0.
//
//go:noescape
func weave(state uint32, dst, src *byte, steps int) (a, b, c uint32)

func fence() {}

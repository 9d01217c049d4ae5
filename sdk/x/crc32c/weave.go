package crc32c

// The instruction for CRC-32C takes three times as long as the processor needs to begin the next one.
// The kernels that weave therefore move three runs of bytes side by side, with a checksum each. That is
// the method of Gopal et al., "Fast CRC Computation for iSCSI Polynomial Using CRC32 Instruction"
// (Intel, 2011). One of them also folds a fourth run, by instructions that need other units of the
// processor.

// weaver makes such a kernel from the number of its steps in a call. In a step it moves 32 bytes of each
// run and more bytes of a fourth. With
// fewer bytes two passes are faster, because the first-level cache holds them.
func weaver(name string, code, steps, more int) *kernel {
	n := steps * (3*32 + more)
	return &kernel{name: name, code: code, least: n + line, block: n, steps: steps, behind: NewShifter(uint64(steps * 32))}
}

// join returns the state behind three runs. The states of the second and third began with 0.
func (k *kernel) join(a, b, c uint32) uint32 { return k.behind.Shift(k.behind.Shift(a)^b) ^ c }

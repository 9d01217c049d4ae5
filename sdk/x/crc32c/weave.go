package crc32c

// The instruction for CRC-32C takes three times as long as the processor needs to begin the next one.
// The kernels that weave therefore move three runs of bytes side by side, with a checksum each. That is
// the method of Gopal et al., "Fast CRC Computation for iSCSI Polynomial Using CRC32 Instruction"
// (Intel, 2011). One of them also folds a fourth run, by instructions that need other units of the
// processor.

// portion is what one call of such a kernel moves.
type portion struct {
	steps int // of 32 bytes of each run
	bytes int
	shift *Shifter // by a run
}

// weaver makes a kernel from the bytes of a step and the steps of its portions, in descending order.
func weaver(name string, code, step int, steps ...int) *kernel {
	k := &kernel{name: name, code: code}
	for _, n := range steps {
		k.portions = append(k.portions, portion{steps: n, bytes: n * step, shift: NewShifter(uint64(n * 32))})
		k.block = n * step
	}
	k.least = k.block + line
	return k
}

// portionOf returns the largest portion of at most n bytes.
func (k *kernel) portionOf(n int) *portion {
	for i := range k.portions {
		if p := &k.portions[i]; p.bytes <= n {
			return p
		}
	}
	panic("crc32c: less than the least portion")
}

// join returns the state behind three runs. The states of the second and third began with 0.
func (p *portion) join(a, b, c uint32) uint32 { return p.shift.Shift(p.shift.Shift(a)^b) ^ c }

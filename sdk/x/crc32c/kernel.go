package crc32c

import (
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"strings"
	"sync"
	"time"
	"unsafe"
)

const (
	// pin is the environment variable that names the kernel to use instead of the fastest.
	pin = "MOONCAKE_CRC32C_KERNEL"
	// chunk is how many bytes the portable copy moves before it computes their checksum. It is
	// about the size of a first-level cache.
	chunk = 32 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// portable is the way without a kernel, by hash/crc32 and the copy of the runtime.
var portable = &kernel{name: "portable", least: math.MaxInt, block: math.MaxInt}

func (k *kernel) update(crc uint32, b []byte) uint32 {
	state := ^crc
	for len(b) >= k.block {
		var n int
		state, n = k.run(state, nil, &b[0], len(b), false)
		b = b[n:]
	}
	return crc32.Update(^state, castagnoli, b)
}

func (k *kernel) copy(crc uint32, dst, src []byte, stream bool) uint32 {
	if len(src) < k.least {
		return copyPortable(crc, dst, src)
	}
	if head := int(-uintptr(unsafe.Pointer(&dst[0])) % line); head > 0 {
		crc = copyPortable(crc, dst[:head], src[:head])
		dst, src = dst[head:], src[head:]
	}
	state := ^crc
	for len(src) >= k.block {
		var n int
		state, n = k.run(state, &dst[0], &src[0], len(src), stream)
		dst, src = dst[n:], src[n:]
	}
	if stream {
		// A goroutine that moves to another processor meanwhile does so by locked instructions and
		// interrupts, which do for the stores behind it what the fence does for the others.
		fence()
	}
	return copyPortable(^state, dst, src)
}

// copyPortable computes the checksum from dst, not from src, which may have changed since the copy.
func copyPortable(crc uint32, dst, src []byte) uint32 {
	for len(src) > chunk {
		n := copy(dst[:chunk], src)
		crc = crc32.Update(crc, castagnoli, dst[:n])
		dst, src = dst[n:], src[n:]
	}
	return crc32.Update(crc, castagnoli, dst[:copy(dst, src)])
}

// choice is the kernel in use.
type choice struct {
	*kernel
	rate    float64 // bytes a second that it copied when it was chosen
	problem error   // with the variable that pins it
}

// use returns the kernel to use. The first call chooses it.
var use = sync.OnceValue(func() choice {
	all := append([]*kernel{portable}, kernels()...)
	return choose(all, measure(all), os.Getenv(pin))
})

// Kernel returns the name of the code that computes checksums while it copies, and the bytes a second
// that it copied, 64 KiB at a time, when it was chosen. The first use of this package chooses
// the fastest in less than a millisecond. The environment variable MOONCAKE_CRC32C_KERNEL names another one. If
// this processor cannot run it, or there is none of the name, the variable has no effect and Kernel
// returns an error, too.
func Kernel() (name string, rate float64, err error) {
	c := use()
	return c.name, c.rate, c.problem
}

// choose returns the kernel of the name that is pinned, or else the fastest.
func choose(all []*kernel, rates []float64, pinned string) choice {
	best, names := 0, make([]string, len(all))
	for i, k := range all {
		if k.name == pinned {
			return choice{k, rates[i], nil}
		}
		if rates[i] >= rates[best] { // Without a clock that moves the widest is best.
			best = i
		}
		names[i] = k.name
	}
	c := choice{kernel: all[best], rate: rates[best]}
	if pinned != "" {
		c.problem = fmt.Errorf("%s is %q, but this processor runs %s: set one of these, or unset it for the fastest", pin, pinned, strings.Join(names, ", "))
	}
	return c
}

// measure returns the bytes a second of copies by each kernel, the best of several rounds.
func measure(all []*kernel) []float64 {
	const (
		size   = 64 << 10 // that and as much again exceeds the first-level cache
		rounds = 8
		bound  = time.Millisecond / 2
	)
	src, dst, rates := make([]byte, size), make([]byte, size), make([]float64, len(all))
	begin := time.Now()
	for round := 0; round < rounds && (round < 2 || time.Since(begin) < bound); round++ {
		for i, k := range all {
			from := time.Now()
			k.copy(0, dst, src, false)
			if took := time.Since(from); took > 0 {
				rates[i] = max(rates[i], size/took.Seconds())
			}
		}
	}
	return rates
}

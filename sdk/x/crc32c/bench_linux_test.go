package crc32c

import (
	"fmt"
	"hash/crc32"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkCopy compares the ways to copy and to compute a checksum with the copy alone and with two
// passes. The contestants take turns in each round, and the clock counts the processor time of
// their thread, so that what else the machine does disturbs all alike. It prints the medians of the
// rounds, in GB/s, and their ratio to the copy and to two passes. -benchtime 15x sets the rounds.
func BenchmarkCopy(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, size := range []int{512, 1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 1 << 20, 16 << 20, 32 << 20, 256 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) { compare(b, size) })
	}
}

type contestant struct {
	name  string
	do    func(dst, src []byte)
	rates []float64
}

func contestants() []*contestant {
	all := []*contestant{
		{name: "copy", do: func(dst, src []byte) { copy(dst, src) }},
		{name: "two passes", do: func(dst, src []byte) { copy(dst, src); crc32.Checksum(dst, castagnoli) }},
	}
	for _, k := range append([]*kernel{portable}, kernels()...) {
		all = append(all, &contestant{name: k.name, do: func(dst, src []byte) { k.copy(0, dst, src, len(src) >= past) }})
	}
	all = append(all, &contestant{name: "sum: hash/crc32", do: func(_, src []byte) { crc32.Checksum(src, castagnoli) }})
	for _, k := range kernels() {
		if k.alone {
			all = append(all, &contestant{name: "sum: " + k.name, do: func(_, src []byte) { k.update(0, src) }})
		}
	}
	return all
}

func compare(b *testing.B, size int) {
	src, dst := aligned(size), aligned(size)
	for i := range src {
		src[i] = byte(i)
	}
	all, repeats := contestants(), max(1, 4<<20/size)
	for b.Loop() {
		for _, c := range all {
			c.do(dst, src)
			from := threadTime()
			for range repeats {
				c.do(dst, src)
			}
			if took := threadTime() - from; took > 0 {
				c.rates = append(c.rates, float64(repeats*size)/float64(took))
			}
		}
	}
	var table strings.Builder
	base := median(all[0].rates)
	for _, c := range all {
		fmt.Fprintf(&table, "\n%12d %-16s %6.1f GB/s %5.2f of the copy %5.2f of two passes", size, c.name, median(c.rates), median(c.rates)/base, median(c.rates)/median(all[1].rates))
	}
	fmt.Println(table.String()) // A benchmark keeps only ten lines of a log.
}

func median(of []float64) float64 {
	if len(of) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(of))
	return sorted[len(sorted)/2]
}

func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}

package crc32c

// Grains divide an object at multiples of a size, counted from the object's first byte. A range of
// the object begins lead bytes into its first grain, so its grains are the rest of that one, whole
// ones, and the beginning of the last. The functions here handle the checksum of each.

// GrainsOf returns how many grains of a size n bytes touch that begin lead bytes into one.
func GrainsOf(n, lead, size int) int { return (lead + n + size - 1) / size }

// SumGrains stores the checksum of each grain of b in sums, which has GrainsOf entries.
func SumGrains(sums []uint32, b []byte, lead, size int) {
	for i := 0; len(b) > 0; i++ {
		n := min(size-lead, len(b))
		sums[i] = Sum(b[:n])
		b, lead = b[n:], 0
	}
}

// CopyGrains is Copy that stores the checksum of each grain in sums, which has GrainsOf entries.
func CopyGrains(sums []uint32, dst, src []byte, lead, size int) {
	dst = dst[:len(src):len(dst)]
	stream := len(src) >= past // What counts is how much is moved in all.
	for i := 0; len(src) > 0; i++ {
		n := min(size-lead, len(src))
		sums[i] = copyPart(0, dst[:n], src[:n], stream)
		dst, src, lead = dst[n:], src[n:], 0
	}
}

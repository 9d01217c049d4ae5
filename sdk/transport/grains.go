package transport

// Grains is where the checksums (CRC-32C) of consecutive bytes go, grain by grain. The zero value
// asks for none.
type Grains struct {
	// Sums has crc32c.GrainsOf(len(Local), Lead, Size) entries. Those of an operation that fails are
	// undefined.
	Sums []uint32
	// Lead is how many bytes of the first grain are before the first byte, below Size.
	Lead int
	// Size is that of a grain in bytes.
	Size int
}

// Cut returns the part for the bytes [from, to) of n. ok is false where it has a border within a
// grain that the whole does not have there.
func (g Grains) Cut(from, to, n int) (part Grains, ok bool) {
	if from > 0 && (g.Lead+from)%g.Size != 0 || to < n && (g.Lead+to)%g.Size != 0 {
		return Grains{}, false
	}
	at := (g.Lead + from) / g.Size
	return Grains{Sums: g.Sums[at:max(at, (g.Lead+to-1)/g.Size+1)], Lead: (g.Lead + from) % g.Size, Size: g.Size}, true
}

// Border returns the last border of a grain in (from, to], or the first one behind, at most n: where to
// cut n bytes so that Cut takes both parts.
func (g Grains) Border(from, to, n int) int {
	if to >= n {
		return n
	}
	if at := to - (g.Lead+to)%g.Size; at > from {
		return at
	}
	return min(from+g.Size-(g.Lead+from)%g.Size, n)
}

package arena

// granules say what sizes are rounded up to. Both are powers of two.
type granules struct {
	// coarse is for the sizes that lose little by it, so that sizes that nearly agree can
	// take each other's place, and objects begin where cache lines do.
	coarse uint64
	// fine is for the others. Offsets and limits are multiples of it.
	fine uint64
}

// little is the share of a size that rounding it to the coarse granule may cost, as the
// divisor of the size.
const little = 128

// granules returns what the setting stands for.
func (c Config) granules() granules {
	if c.GranuleBytes == 0 {
		return granules{coarse: 64, fine: 16}
	}
	return granules{coarse: c.GranuleBytes, fine: c.GranuleBytes}
}

// slot rounds a size of at most maxSpace up.
func (g granules) slot(size uint64) uint64 {
	if slot := roundUp(size, g.coarse); slot-size <= size/little {
		return slot
	}
	return roundUp(size, g.fine)
}

// within returns the largest size whose slot fits into a free range. It is less than a coarse
// granule smaller than the range.
func (g granules) within(free uint64) uint64 {
	size := free
	for g.slot(size) > free {
		size--
	}
	return size
}

// roundUp returns the next multiple of a power of two.
func roundUp(n, granule uint64) uint64 { return (n + granule - 1) &^ (granule - 1) }

package convert

// fillGrains appends the checksums of the grains of n items, and how many each has, to empty columns.
// It appends nothing where no item has some.
func fillGrains(counts, grains []uint32, n int, of func(int) []uint32) (allCounts, all []uint32) {
	for i := range n {
		if one := of(i); len(one) > 0 {
			for len(counts) < i {
				counts = append(counts, 0)
			}
			counts, grains = append(counts, uint32(len(one))), append(grains, one...)
		}
	}
	for len(grains) > 0 && len(counts) < n {
		counts = append(counts, 0)
	}
	return counts, grains
}

// readGrains returns the checksums of the grains of each of n items, which share an allocation and no
// memory of the columns.
func readGrains(n int, counts, grains []uint32) (func(int) []uint32, error) {
	if len(counts) == 0 && len(grains) == 0 {
		return func(int) []uint32 { return nil }, nil
	}
	total := uint64(0)
	for _, c := range counts {
		total += uint64(c)
	}
	if len(counts) != n || total != uint64(len(grains)) {
		return nil, Malformed("%d counts of grains for %d items, and %d checksums for %d grains", len(counts), n, len(grains), total)
	}
	rest, next := append([]uint32(nil), grains...), 0
	return func(i int) (one []uint32) { // Called for one item after the other.
		if i != next {
			panic("convert: the grains of items are read in their order")
		}
		next++
		if c := counts[i]; c > 0 {
			one, rest = rest[:c:c], rest[c:]
		}
		return one
	}, nil
}

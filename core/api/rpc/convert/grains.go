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

// grainReader reads the checksums of the grains of items, one item after the other.
type grainReader struct{ counts, grains []uint32 }

// readGrains checks the columns for n items. The checksums that the reader returns are memory of the
// column.
func readGrains(n int, counts, grains []uint32) (grainReader, error) {
	total := uint64(0)
	for _, c := range counts {
		total += uint64(c)
	}
	if len(counts) != n && len(counts)+len(grains) > 0 || total != uint64(len(grains)) {
		return grainReader{}, Malformed("%d counts of grains for %d items, and %d checksums for %d grains", len(counts), n, len(grains), total)
	}
	return grainReader{counts, grains}, nil
}

// next returns those of the next item, nil for none.
func (r *grainReader) next() (one []uint32) {
	if len(r.counts) == 0 {
		return nil
	}
	n := r.counts[0]
	if r.counts = r.counts[1:]; n > 0 {
		one, r.grains = r.grains[:n:n], r.grains[n:]
	}
	return one
}

// Package seal seals the bytes of objects, so that neither a node nor the network can forge or, with AEAD, read
// them, and opens them again.
//
// A sealed object is its body, which has as many bytes as the value, and a trailer behind it. The body is cut into
// chunks, and the trailer has a header and a tag for each chunk, so that a range is opened with its chunks and the
// trailer alone.
package seal

const (
	// headerSize and tagSize are the sizes of the parts of a trailer, in bytes.
	headerSize, tagSize = 160, 16
	// minChunk is the least size of a chunk in bytes, that of a grain.
	minChunk = 16 << 10
	// maxChunks is the largest number of chunks. Those of a larger object are larger.
	maxChunks = 1024
	// MaxSize bounds the size of a value, in bytes.
	MaxSize = 1 << 62
)

// ChunkSize returns the size of the chunks of a value of a size, both in bytes.
func ChunkSize(size uint64) uint64 {
	c := uint64(minChunk)
	for c*maxChunks < size {
		c *= 2
	}
	return c
}

// chunks returns how many chunks a value has.
func chunks(size uint64) uint64 {
	c := ChunkSize(size)
	return (size + c - 1) / c
}

// slots returns how many tags there is space for behind the header of a trailer. It does not fall as the size grows,
// although the number of chunks does, so that no two sizes have the same sealed size.
func slots(size uint64) uint64 { return min((size+minChunk-1)/minChunk, maxChunks) }

// TrailerSize returns the size of the trailer of a value of a size, both in bytes.
func TrailerSize(size uint64) uint64 { return headerSize + tagSize*slots(size) }

// SealedSize returns the size of the sealed object of a value. The size is 1 to MaxSize.
func SealedSize(size uint64) uint64 { return size + TrailerSize(size) }

// PlainSize returns the size of the value of a sealed object, false if no sealed object has that size.
func PlainSize(sealed uint64) (size uint64, ok bool) {
	const full = minChunk * maxChunks // the least size with all slots
	switch {
	case sealed <= headerSize+tagSize || sealed > MaxSize+headerSize+tagSize*maxChunks:
		return 0, false
	case sealed >= full+headerSize+tagSize*maxChunks:
		return sealed - headerSize - tagSize*maxChunks, true
	}
	rest := sealed - headerSize
	n := (rest + minChunk + tagSize - 1) / (minChunk + tagSize)
	if rest <= n*tagSize {
		return 0, false
	}
	size = rest - n*tagSize
	return size, slots(size) == n
}

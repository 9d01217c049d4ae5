package placement

import (
	"github.com/mooncake-go/mooncake/sdk/alloc"
)

const (
	// MaxPieces is the most pieces that one copy is cut into.
	MaxPieces = 64
	// pieceUnit is what the size of a piece is a multiple of, except that of the last, in
	// bytes.
	pieceUnit = 4 << 10
)

// PieceSize returns the size of the pieces, in bytes, that an object is cut into: size
// itself when it stays whole, 0 when it cannot be placed at all. A piece has at most
// stripe bytes (0 is no limit) and never more than largest, the size of the largest free range;
// more than MaxPieces pieces are made fewer and larger as far as largest allows.
func PieceSize(size, stripe, largest uint64) uint64 {
	limit := largest
	if stripe > 0 {
		limit = min(limit, max(stripe, pieceUnit))
	}
	if size <= limit {
		return size
	}
	piece := limit / pieceUnit * pieceUnit
	if fewest := (size-1)/MaxPieces + 1; piece < fewest {
		piece = fewest
		if over := piece % pieceUnit; over != 0 {
			piece += pieceUnit - over
		}
	}
	if piece > largest {
		return 0
	}
	return piece
}

// WholeSize is PieceSize of an object that is not cut.
func WholeSize(size, largest uint64) uint64 {
	if size > largest {
		return 0
	}
	return size
}

// Stripe appends the requests for the pieces of one copy, in the order of the bytes. Each
// piece begins with another candidate, in turn, and falls back on those that follow.
// piece is what PieceSize said; nothing is appended when it is 0 or there is no candidate.
func Stripe(dst []alloc.Request, candidates []alloc.SpaceID, size, piece uint64) []alloc.Request {
	n := len(candidates)
	switch {
	case piece == 0 || n == 0:
		return dst
	case piece >= size:
		return append(dst, alloc.Request{Size: size, Candidates: candidates})
	}
	ring := make([]alloc.SpaceID, 0, 2*n)
	ring = append(append(ring, candidates...), candidates...)
	for i := 0; size > 0; i++ {
		take := min(size, piece)
		from := i % n
		dst = append(dst, alloc.Request{Size: take, Candidates: ring[from : from+n : from+n]})
		size -= take
	}
	return dst
}

package memory

// PieceAlign is the alignment of the pieces of a large segment, in bytes.
const PieceAlign = 4 << 20

// Pieces divides total bytes into as few pieces of at most limit as possible, nearly equal
// and, but for the last, multiples of PieceAlign: what a node mounts when its transport
// registers no more than limit at once. A limit below PieceAlign counts as that.
func Pieces(total, limit uint64) []uint64 {
	if total == 0 {
		return nil
	}
	limit = max(limit/PieceAlign*PieceAlign, PieceAlign)
	n := (total-1)/limit + 1
	each := (total-1)/n + 1
	each = min((each+PieceAlign-1)/PieceAlign*PieceAlign, limit)
	var out []uint64
	for total > 0 {
		p := min(each, total)
		out = append(out, p)
		total -= p
	}
	return out
}

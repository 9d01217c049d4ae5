package transport

// Summing is implemented by paths that sum up what they move, as they move it, so that nobody
// has to read it once more. Safe for concurrent use. Paths that are not, or whose Sums is false,
// set Completion.Summed for no operation.
type Summing interface {
	// Sums reports whether operations of at least one byte with Op.Sum that end OK have
	// Completion.Summed.
	Sums() bool
}

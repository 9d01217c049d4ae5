package transport

// Extras are what a path can do beyond the contract for callers in its own process. A nil function
// is not offered.
type Extras struct {
	// Deliver makes the path give each completion to f, on the goroutine that completes the
	// operation, instead of to Reap. That saves waking a reaper that would only pass completions on.
	// f returns false for a completion that Reap has to return after all. The path calls f with its
	// locks held and from one goroutine at a time, so f neither blocks nor calls the path. Deliver is
	// called once, before the first Submit. The caller still has to call Reap, in which a path may do
	// part of its work.
	Deliver func(f func(c Completion) bool)
	// Poll polls for the peer's answers on the goroutine of a caller that waits for a completion.
	// Completions come as they do otherwise, but sooner than to a caller that sleeps. Poll returns
	// when bytes came, when stop returns true, or after a short time, usually 200 us and 10 ms at
	// most; at once where polling does not pay, or another goroutine polls. Poll calls stop often, and
	// not after it returned; stop must not block. Safe for concurrent use.
	Poll func(stop func() bool)
	// Checksums says that operations of at least one byte with Op.Sum that end OK have
	// Completion.Summed: the path computes the checksum of the bytes as it moves them. Other paths
	// set Completion.Summed for no operation.
	Checksums bool
}

// Extended is implemented by paths that have Extras.
type Extended interface {
	Extras() Extras
}

// ExtrasOf returns the extras of a path. It looks through wrappers as As does, except for Deliver,
// because a wrapper may change completions.
func ExtrasOf(p Path) Extras {
	e, ok := As[Extended](p)
	if !ok {
		return Extras{}
	}
	x := e.Extras()
	if _, own := p.(Extended); !own {
		x.Deliver = nil
	}
	return x
}

package transport

// As finds a companion interface of a transport or a path, such as Upstream, Changing or Railed. It
// looks through wrappers, which tell what they wrap with Unwrap() any.
func As[T any](x any) (T, bool) {
	for {
		if t, ok := x.(T); ok {
			return t, true
		}
		w, ok := x.(interface{ Unwrap() any })
		if !ok {
			var none T
			return none, false
		}
		x = w.Unwrap()
	}
}

// Extras are what a path can do beyond the contract for callers in its own process. A nil function
// is not offered.
type Extras struct {
	// Deliver makes the path give each completion to f, on the goroutine that completes the
	// operation, instead of to Reap. That saves waking a reaper that would only pass completions
	// on. f returns false for a completion that Reap has to return after all. The path calls f with
	// its locks held and from one goroutine at a time, so f neither blocks nor calls the path.
	// Deliver is called once, before the first Submit. The caller still has to call Reap, in which
	// a path may do part of its work.
	Deliver func(f func(c Completion) bool)
	// Poll polls for the peer's answers on the goroutine of a caller that waits for a completion.
	// Completions come as they do otherwise, but sooner than to a caller that sleeps. Poll returns
	// when bytes came, when stop returns true, or after a short time, usually 200 us and 10 ms at
	// most; at once where polling does not pay, or another goroutine polls. Poll calls stop often,
	// and not after it returned; stop must not block. Safe for concurrent use.
	Poll func(stop func() bool)
	// Checksums says that operations of at least one byte that end OK have Completion.Summed with
	// Op.Sum, and Completion.Grained with Op.Grains: the path computes the checksums of the bytes as
	// it moves them. Other paths set neither for any operation.
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

// Rail is one way of a path: a device on this side and one on the peer's.
type Rail struct {
	ID RailID
	// Local and Remote are the names of the devices as the topology of each machine has them:
	// "mlx5_0".
	Local, Remote string
	// Up says whether operations may be submitted for the rail. One that is down comes back by
	// itself when its devices and the peer allow.
	Up bool
	// Speed is the nominal speed of the slower device in bits per second, 0 for unknown.
	Speed uint64
}

// Railed is what the paths of a transport with CapRails implement: the caller may spread operations
// over several devices with Op.Rail. Safe for concurrent use.
type Railed interface {
	// Rails lists every rail, also those that are down. A rail keeps its ID and its devices for the
	// life of the path. The caller owns the slice.
	Rails() []Rail
}

// Changing is implemented by transports whose Endpoint, Segment or rails can change while they run:
// a port went down, an address changed.
type Changing interface {
	// Changed returns a channel of capacity 1 that gets a value after something changed; changes
	// that the receiver has not taken yet merge. It is never closed, and is the same on every call.
	Changed() <-chan struct{}
}

package transport

// Attending is implemented by paths whose answers are there sooner when who waits for a
// completion looks for them, too, instead of going to sleep at once.
type Attending interface {
	// Attend looks for what the peer is about to send, on the goroutine of a caller that waits for
	// the completion of something that it submitted. It returns when something came, when stop
	// returns true, or after a short time, usually 200 us and 10 ms at most; at once where looking
	// does not pay, or others do. Completions come as they do otherwise. Stop is called often, must
	// not block, and is not called after Attend returned. Safe for concurrent use.
	Attend(stop func() bool)
}

package transport

// Delivering is implemented by paths that can hand a completion over where it comes about,
// to somebody who sends it on: a reaper that is woken for that alone costs more than the rest.
type Delivering interface {
	// Deliver has each completion given to f instead of to Reap. f returns false for one
	// that Reap has to give out after all. It is called with locks of the path held, by one goroutine
	// at a time; so it neither blocks nor calls the path. Deliver comes before the first Submit, once.
	// Somebody still has to Reap: a path may do part of its work there.
	Deliver(f func(c Completion) bool)
}

package model

// KVEventStats says what became of the events about objects that come and go, since the
// start.
type KVEventStats struct {
	// Enabled is false while nothing is published; then the rest is 0.
	Enabled bool
	// Batches and Events went out, whether anybody listened or not.
	Batches, Events uint64
	// Dropped are events that found the queue full and pushed out the oldest.
	Dropped uint64
	// Skipped are events on keys that are no hash. They are published without one, or not at
	// all where keys are not published.
	Skipped uint64
	// Subscribers are connected now. Missed are the batches that were too late for one of
	// them, counted for each.
	Subscribers int
	Missed      uint64
}

// Package s3fifo is the eviction policy evict/s3fifo, after "FIFO Queues are All You Need for
// Cache Eviction" (Yang and others, SOSP 2023).
//
// New objects enter a small queue. Those that are read often enough there go on to the main
// queue, the others are evicted and remembered by the fingerprint of their key: an object
// that comes back while it is remembered enters the main queue at once. In the main queue an
// object that was read goes around once more for each read, three times at most.
//
// A policy is not told how large the pool is, so all shares are of what is there now.
package s3fifo

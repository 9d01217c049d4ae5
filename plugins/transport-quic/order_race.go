//go:build race

package quic

import "sync/atomic"

// raceBuild says whether the race detector watches.
const raceBuild = true

// The race detector sees the order that a socket makes between two goroutines of one process only
// where the standard library reads and writes it. quic-go reads many packets with one call of
// golang.org/x/net, which tells it nothing. Real runs have the peer elsewhere.
var order atomic.Uint64

func published() { order.Add(1) }
func observed()  { order.Load() }

// sendable returns a copy of payload, read before published says that it was: the goroutine of
// quic-go that would read it is not seen to be done with it.
func sendable(payload []byte) []byte { return append([]byte(nil), payload...) }

//go:build !race

package quic

// raceBuild says whether the race detector watches.
const raceBuild = false

// published and observed mark where one side has done with memory and says so, and where the other
// learns of it. See order_race.go.
func published() {}
func observed()  {}

// sendable returns the bytes of payload that quic-go gets.
func sendable(payload []byte) []byte { return payload }

// Package zmtp is a publisher that speaks ZMTP 3.1, the protocol of ZeroMQ: what a PUB
// socket is to SUB sockets of libzmq 4 and of every binding above it. Mechanism NULL, no
// authentication.
//
// It publishes one stream: every message begins with an empty topic, so that a subscriber
// gets all of it, by subscribing to "", or nothing.
//
// Messages are kept once, in a log of bounded length and size, and every subscriber reads at its
// own pace. A subscriber that falls behind the end of the log goes on with the oldest message
// that is left. Publishing never waits for a subscriber. So a million messages for a subscriber
// that does not read cost no more than for one that does.
package zmtp

// Package memtransport is a transport for tests that copies memory within the process and
// fails on command: it refuses, delays, drops, stalls, corrupts, duplicates and
// quarantines what a test tells it to.
//
// A Network is the set of transports that reach each other. Everything runs on timers and
// channels, so it also works in virtual time (testing/synctest).
package memtransport

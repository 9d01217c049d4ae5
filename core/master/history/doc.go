// Package history remembers what became of keys that are gone, so that the master can say
// why a key is not there: evicted, removed, lost with its node, given up by its writer.
//
// It is a log of the last keys that went, found by their fingerprints. The oldest entry
// makes room for the newest, so what it remembers reaches back a while that depends on how
// fast keys go, and Oldest says how far. Two keys with the same 64-bit fingerprint are one
// to it.
package history

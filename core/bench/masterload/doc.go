// Package masterload fills a master with keys and then loads it while it evicts: bytes of
// memory a key, calls a second, allocations a key, and how long clients wait.
//
// The master manages memory as numbers only, so that ten million pages of a pool need no
// pool: nothing is mapped and no byte is moved.
package masterload

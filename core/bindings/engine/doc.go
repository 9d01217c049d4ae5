// Package engine is the transfer engine as a program in another language uses it: one
// object that is made first and initialized later, calls that say with an error what became
// of them and keep its text, memory that is known by its address, batches that are known by
// a number. Everything here is without cgo; the files beside main.go turn C's arguments into
// those of this package.
//
// Every wait is bounded. A call on an engine that is not initialized answers
// UnavailableInCurrentStatus.
package engine

// Package store is the store as a C library offers it: calls with codes for results,
// on an object that may not be set up, with memory that is given by address.
//
// A Store works on a store.Pool: a node of this process (Setup) or the client that another
// process of this host serves (SetupDummy). Everything of it may be called from any
// goroutine at any time. No call is without an end: they all have the bounds of the
// configuration.
package store

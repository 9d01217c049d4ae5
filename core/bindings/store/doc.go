// Package store is the store for a C library: its calls return codes, name memory by address, and
// may come before the store is set up.
//
// A Store uses a store.Pool: a node of this process (Setup) or the client that another process of
// this host serves (SetupDummy). Any goroutine may call it at any time. Every call is bounded by
// the configuration.
package store

// Package wiretest puts a real gRPC connection between a conformance suite and a plugin.
//
// Evict, Alloc and Transport take a factory and return one that looks the same, but whose objects
// live behind a server of package wire, reached over a unix socket. A suite that takes a
// factory runs through the wire without knowing it:
//
//	evicttest.Run(t, lru.Factory())                        // in process
//	evicttest.Run(t, wiretest.Evict(t, lru.Factory()))     // through the wire
//
// Every object gets a server and a connection of its own; all of them end with the test.
package wiretest

// Package wire carries the plugin contracts over gRPC, so that a plugin in a process of
// its own looks to its host like an object in the host.
//
// A Server wraps a plugin.Factory and serves exactly one object: Describe, Configure,
// Start, the calls of the kind, Stop. NewEvict and NewAlloc make the other side, which
// implements evict.Policy and alloc.Allocator:
//
//	srv, err := wire.NewServer(lru.Factory())
//	srv.Register(grpcServer)
//	...
//	policy := wire.NewEvict(conn, wire.ClientOptions{ID: id})
//	err = policy.Configure(ctx, 1, []byte(`{"shards": 8}`))
//	err = policy.Start(ctx, host)
//
// # Transports
//
// For a transport only control is a call. Descriptors of memory, rings and bells go over
// the socket ClientOptions.Data, each message under a token that the call names to which it
// belongs. The operations of a path go through two rings in shared memory, and no byte of
// memory that has a descriptor is copied; see package internal/datapath. What the plugin
// writes is checked, and ClientOptions.Kill is told of what cannot be right and of silence.
// Whoever ends the process tells Transport.Ended once it is collected: until then nothing
// that was under way completes, because the process may still touch the memory.
//
// # Limits
//
// A message has at most MaxMessage bytes. The clients cut larger batches and put the
// answers together again; a server refuses more in one call than a client would send.
// Every call is bounded: calls of the kind by ClientOptions.Timeout (or the caller's
// context, when that ends first), lifecycle calls by the context or LifecycleTimeout.
//
// # Errors
//
// An error keeps its errs.Code, errs.Class and text. What was lost on the way is RPCFail
// or RPCTimeout, class transient-peer. A message that breaks the contract (columns of
// different length, an unknown code) is refused or made harmless, never trusted: the
// other side is another program.
//
// # Lost answers
//
// A call that gives something out (Alloc, Propose) goes on when its caller stops
// waiting, and what it then brings is given back. Only an answer that is lost together
// with the connection, or that comes later than Timeout, can leave something given out;
// a host restarts such a plugin and tells it what is really in use.
package wire

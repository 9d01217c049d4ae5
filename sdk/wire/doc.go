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
// Kinds evict and alloc exist; transports come with the shared-memory ring.
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

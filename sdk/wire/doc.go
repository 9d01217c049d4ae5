// Package wire carries the plugin contracts over gRPC, so that a plugin in a process of its own
// looks to its host like an object in the host. It holds what all kinds share: the set-up of
// go-plugin, the lifecycle, settings, errors and limits. The package of a kind describes its own
// services with a Kind: evict/evictwire, alloc/allocwire, transport/transportwire, tier/tierwire.
// Package kinds lists them.
//
// A Server wraps a plugin.Factory and serves exactly one object: Describe, Configure, Start, the
// calls of the kind, Stop. The client of the kind is the other side, and implements the contract:
//
//	srv, err := wire.NewServer(kind.Descriptor(), lru.Factory(), wire.ServerOptions{})
//	srv.Register(grpcServer)
//	...
//	policy := evictwire.NewClient(conn, wire.ClientOptions{ID: id})
//	err = policy.Configure(ctx, 1, []byte(`{"shards": 8}`))
//	err = policy.Start(ctx, host)
//
// # Limits
//
// A message has at most MaxMessage bytes. The clients cut larger batches and put the answers
// together again; a server refuses calls that are larger than any a client sends. Every call is
// bounded: calls of the kind by ClientOptions.Timeout (or the caller's context, when that ends
// first), lifecycle calls by the context or LifecycleTimeout.
//
// # Errors
//
// An error keeps its errs.Code, errs.Class and text. A call that is lost in transit is RPCFail or
// RPCTimeout, class transient-peer. A message that breaks the contract (columns of different
// length, an unknown code) is refused or made harmless, never trusted: the other side is another
// program.
//
// # Lost answers
//
// A call that allocates something (Alloc, Propose) continues when its caller stops waiting, and the
// client returns to the plugin what the answer contains. Only an answer that is lost together with
// the connection, or that arrives after Timeout, can leave something allocated. The host restarts
// such a plugin and replays what is in use.
package wire

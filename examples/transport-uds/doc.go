// Package uds is the transport transport/uds: it moves bytes between processes of one
// machine over unix stream sockets. It is the example of docs/plugins, written to be read; on one
// machine the built-in transport/shm is faster.
//
// # Reading order
//
//	manifest.json config.go factory.go   what the host has to know
//	wire.go reason.go                    frames, and the reasons of refusals
//	blob.go                              endpoints and keys, which peers receive
//	region.go                            registered memory and its current users (sdk/transport/regionkit)
//	folder.go                            the folder of the socket and its permissions
//	node.go                              transport.Transport: start, stop, register, dial
//	serve.go                             the side that accepts connections and answers requests
//	path.go connection.go dial.go        the side that connects and sends requests: transport.Path
//
// # The protocol
//
// A connection begins with a hello in both directions. Then the side that connected sends requests:
// one frame, Read or Write, and for a Write its bytes. The other side answers each request before
// it reads the next: Data and the bytes, Done, or Refused with a reason. A frame is 48 bytes; bytes
// go straight between the socket and the registered memory. A malformed frame ends its connection.
//
// A side that stops finishes the current request, sends a Refused that names no request, and closes
// the connection. It has not begun any request that it has not answered by then.
//
// # Isolation of peers
//
// The socket is in a folder that only its user can enter. A request carries the token of its
// region: 16 random bytes that only the key contains. Each start has an incarnation of its own, and
// with it a socket of its own.
package uds

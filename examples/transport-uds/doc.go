// Package uds is the transport transport/uds: it moves bytes between processes of one
// machine over unix stream sockets. It is the example of docs/plugins, written to be read; on one
// machine the built-in transport/shm is faster.
//
// # The parts, in the order in which to read them
//
//	manifest.json config.go factory.go   what the host has to know
//	wire.go reason.go                    frames, and why one is refused
//	blob.go                              endpoints and keys: what peers get to know
//	region.go                            registered memory, and who touches it now (sdk/transport/regionkit)
//	folder.go                            where the socket is, and who may reach it
//	node.go                              transport.Transport: start, stop, register, dial
//	serve.go                             the side that is asked
//	path.go lane.go dial.go              the side that asks: transport.Path
//
// # The protocol
//
// A connection begins with a hello in both directions. Then the side that connected asks:
// one frame, Read or Write, and for a Write its bytes. The other side answers each before it looks at
// the next: Data and the bytes, Done, or Refused with a reason. A frame is 48 bytes; bytes go straight
// between the socket and the registered memory. A frame that makes no sense ends its connection.
//
// A side that stops finishes the request that it is at, sends a Refused that names no request, and
// closes the connection: what it has not answered by then it did not begin.
//
// # What keeps peers apart
//
// The socket is in a folder that only its user can enter. A request shows the token of its
// region, 16 random bytes that are in the key alone. The token of a start is the incarnation: what
// listens there after a restart has another socket.
package uds

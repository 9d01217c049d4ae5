// Package lean carries the unary calls of a gRPC service over a plain TCP connection: the
// same service description, the same messages, the same statuses, without HTTP/2 between
// them. It exists because a round trip of gRPC costs several times the work of the call,
// where a call is a look-up of one key (ADR 0018 has the figures). gRPC stays the public
// interface; both are served on one port.
//
// # On the wire
//
// The client begins with 8 bytes: "MCL1" and four zeros. The server answers with the same
// bytes, or closes the connection where it does not know them. Then both send frames. All
// numbers are little-endian.
//
//	bytes  field
//	4      length of what follows
//	4      number of the call, picked by the client; 0 with goodbye and with nothing else
//	1      kind: 1 call, 2 answer, 3 give up, 4 goodbye
//	1      call: length of the method's name; answer: gRPC status code
//	2      zero
//	4      call: milliseconds until the caller stops waiting, 0 for no limit; else zero
//	n      call: name of the method ("/package.Service/Method"), then the request
//	       answer: the response, or with another code than OK a google.rpc.Status
//
// Requests and responses are in protobuf's binary form. An answer may overtake others. With
// goodbye the server says that the connection has been idle for long: the client calls over
// another one and closes this one; what crossed the goodbye is still answered.
//
// # Limits
//
// A frame is at most Limits.Frame bytes, a connection has at most Limits.Calls calls under
// way; more wait unread. A peer that does not take what is sent to it loses the connection
// after Limits.Stall.
package lean

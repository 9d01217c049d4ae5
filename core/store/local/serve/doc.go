// Package serve is the side of a local attachment that owns the client of the pool: other
// processes of the host attach to it (package local), hand it their memory as sealed memfds,
// and have it move objects between that memory and the pool. No byte of an object goes
// through a socket.
//
// One unix socket takes both connections of a process: the lifeline, on which memory is handed over
// and whose end means that the other side is gone, and the connection for gRPC calls. Memory of a
// process is unmapped only when no call touches it any more; then the lifeline is closed, so that
// its end proves to the other side that the service no longer uses its memory.
package serve

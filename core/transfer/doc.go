// Package transfer moves bytes between this process and its peers over the transports that both
// have.
//
// An Engine takes requests by Transfer, in a Batch or in a Scatter. Its parts are packages of their
// own, from the lowest to the highest:
//
//   - settings has the settings, request the requests with their states, and lifetime runs the
//     goroutines and ends them.
//   - carrier has the transports of the engine, and region the local memory that is registered with
//     them.
//   - rail measures the rails of a path (pairs of devices) and chooses one for each slice. A rail
//     that keeps failing is paused and returns gradually.
//   - path is one path to a peer over one transport, with the operations in flight and the reaper
//     that hands them back.
//   - peer looks peers up, connects to them, and backs off those that keep failing, so that requests
//     to them fail fast and requests to others are not delayed.
//   - dispatch cuts requests into slices, submits them within a window of bytes, and retries them by
//     the class of their error: on another rail, on the same path, on the next transport, and once
//     more after the peer was looked up anew.
//   - publish tells the directory what peers need to reach this process.
//
// The engine never hands back memory silently that may still be written: see ErrQuarantined.
//
// A request names its peer by the name under which the peer published itself, and the
// peer's memory by address. The process's own name means a copy within memory.
package transfer

// Package tasks keeps the copies and moves that the master gives to clients to carry out.
//
// A task waits (pending) until the client that owns its source fetches it, is in progress
// (processing) until that client reports how it went, and is then remembered for a while. How
// many of each there may be, and how long each may take, is bounded: a client that never asks, or
// never answers, fails its tasks and does not block those of other clients.
//
// The manager knows nothing of objects and segments: the creator of a task has checked that it
// makes sense, and the client that carries it out finds what has changed since.
package tasks

// Package launch runs a plugin program as a child process and hands out a client for it.
// It is the only package of the core that knows go-plugin; package plugins supervises
// what it starts.
//
// A child gets: an allow-listed environment, no standard input, a process group of its
// own, mutual TLS on a unix socket in a folder only its owner can enter, and a lifeline.
// What it writes to standard error becomes log records, and the last lines are kept for
// the error that explains its end.
//
// # Nothing stays behind
//
// When the child ends, for whatever reason, its process group is killed before the child
// is collected, so that the group's number cannot have been given to anybody else. When
// the host ends, even by SIGKILL, the child notices through the lifeline, and through
// SIGTERM that the kernel sends. Only a grandchild that left the group on its own
// (setsid) escapes.
package launch

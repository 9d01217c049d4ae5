// Package launch runs a plugin program as a child process and hands out a client for it.
// It is the only package of the core that knows go-plugin; package plugins supervises
// what it starts.
//
// A child gets: an allow-listed environment, no standard input, a process group of its
// own, mutual TLS on a unix socket in a folder only its owner can enter, and a lifeline.
// What it writes to standard error becomes log records, and the last lines are kept for
// the error that explains its end.
//
// # What runs
//
// The bytes that run are those of an Image: a copy in sealed memory, made and hashed before
// the start, so that nothing that happens to the file later changes them. A script is run by
// the interpreter that it names, which reads the script from that copy; what the script
// imports comes from files and is not covered.
//
// # Nothing stays behind
//
// Between the host and the plugin stands a keeper (internal/keeper), a process of a few KiB
// that adopts whatever the plugin starts and loses. When the plugin ends, for whatever
// reason, the keeper kills all that is left below it, in its process group or not, before
// the child counts as ended. When the host ends, even by SIGKILL, the plugin notices
// through the lifeline; the keeper sends it SIGTERM, kills it two seconds later, and what it
// started with it. A keeper that does not come to an end is killed.
//
// Where there can be no keeper (an architecture that it was not written for, a kernel before
// 5.3, or one that runs no memory files) a warning says so: the process group is killed then,
// before its leader is collected, so that its number cannot have been given to anybody else;
// who left the group on its own (setsid) escapes, unless the child has a control group for
// its limits, and a plugin that stands still outlives its host.
package launch

// Package launch runs a plugin program as a child process and returns a client for it. It is
// the only package of the core that knows go-plugin. Package pluginhost supervises the
// processes that it starts.
//
// A child gets an allow-listed environment, no standard input, a process group of its own,
// mutual TLS on a unix socket in a folder that only its owner can enter, and a lifeline. Its
// standard error becomes log records. The last lines are kept for the error that explains its
// end.
//
// # What runs
//
// The bytes that run are those of an Image: a copy in sealed memory, made and hashed before
// the start, so that later changes of the file have no effect. A script is run by the
// interpreter that it names, which reads the script from that copy. Files that the script
// imports are not covered.
//
// # Nothing stays behind
//
// A keeper (internal/keeper) stands between the host and the plugin. It is a process of a few
// KiB that adopts the plugin's orphaned descendants. When the plugin ends, for whatever reason,
// the keeper kills all remaining processes below it, in its process group or not, before the
// child counts as ended. When the host ends, even by SIGKILL, the plugin notices through the
// lifeline. The keeper sends it SIGTERM, and two seconds later kills it and its descendants. The
// host kills a keeper that does not end.
//
// There is no keeper on an architecture that it was not written for, on a kernel before 5.3,
// and on a kernel that runs no memory files. A warning says so. The host then kills the process
// group before it collects the leader, so that the group's number cannot have been reused. A
// process that left the group (setsid) escapes, unless the child has a control group for its
// limits, and a plugin that hangs outlives its host.
package launch

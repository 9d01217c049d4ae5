// Package introspect is the admin socket of a process: a unix socket on which the
// commands of the same machine ask what runs in it, and have a plugin loaded anew. It
// speaks HTTP with JSON:
//
//	GET  /v1/process                        who this is
//	GET  /v1/plugins                        the plugins in use, with state, process, last log lines
//	POST /v1/plugins/{kind}/{name}/reload   a new process from the binary that is there now
//	GET  /debug/pprof/                      profiles of the Go runtime, with ServeProfiles only
//
// The socket lies in a folder that only its user may enter, can be opened by its user
// only, and whoever connects is asked for: it answers that user and root, nobody else.
// Listen makes it, Server serves it, Find sees those of all processes, Client asks one.
//
// A process that is killed leaves its socket behind. It is told from a living one by
// that nobody listens, and removed by the next one who looks.
package introspect

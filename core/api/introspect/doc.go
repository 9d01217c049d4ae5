// Package introspect is the admin socket of a process: a unix socket on which the
// commands of the same machine ask what runs in it, and have a plugin loaded anew. It
// speaks HTTP with JSON:
//
//	GET  /v1/process                        who this is
//	GET  /v1/plugins                        the plugins in use, with state, process, last log lines
//	POST /v1/plugins/{kind}/{name}/reload   a new process from the binary that is there now
//	GET  /debug/pprof/                      profiles of the Go runtime, with ServeProfiles only
//
// The socket lies in a folder that only its user may enter, and only its user can open it. The
// server also asks the kernel which user connected: it answers that user and root, and refuses
// all others. Listen makes it, Server serves it, Find sees those of all processes, Client asks
// one.
//
// A process that is killed leaves its socket behind. No process listens on such a socket. The
// next process that looks at it removes it.
package introspect

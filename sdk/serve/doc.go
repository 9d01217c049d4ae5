// Package serve is the main function of a plugin that runs in a process of its own.
//
//	package main
//
//	func main() { serve.Main(lru.Factory()) }
//
// The program is named mooncake-plugin-<kind>-<name> and put into a plugin folder; the
// host reads its manifest out of the file, starts it, and talks to it by package wire.
// A user can also run it: it understands --manifest, --version and --help, and exits with code 2
// for anything else.
//
// # What a plugin gets
//
// Logs go through plugin.Host.Logger, or as lines to standard error; both appear in the
// host's log. Standard output belongs to the handshake: what a plugin prints there after
// the handshake goes to standard error.
//
// # When the host goes away
//
// The process ends when the host asks it to, on SIGTERM and SIGHUP, and when its lifeline
// closes: a socket whose other end only the host holds, so that it closes even when the
// host is killed with SIGKILL. In the last cases the whole process group ends, so that
// nothing that the plugin started stays behind.
//
// Exit codes: 0 asked to end, 1 failure while serving, 2 wrong use, 3 the host is gone.
package serve

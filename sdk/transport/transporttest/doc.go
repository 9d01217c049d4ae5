// Package transporttest holds a transport to its contract.
//
// Run takes a factory and checks each sentence of package transport between transports
// of one process: content, rights, ranges, back-pressure, exactly one completion for
// each accepted operation, deadlines, restarts, and the lifecycle.
//
//	func TestConformance(t *testing.T) { transporttest.Run(t, tcp.Factory()) }
//
// What a suite cannot know of a transport it asks for in options; the checks that need
// one are skipped without it, by name.
package transporttest

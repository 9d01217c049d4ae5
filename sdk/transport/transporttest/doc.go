// Package transporttest checks that a transport keeps its contract.
//
// Run takes a factory and checks each sentence of package transport between transports
// of one process: content, rights, ranges, back-pressure, exactly one completion for
// each accepted operation, deadlines, restarts, and the lifecycle.
//
//	func TestConformance(t *testing.T) { transporttest.Run(t, tcp.Factory()) }
//
// Options supply what the suite cannot know of a transport. The report lists the checks that were
// skipped because their option is missing.
package transporttest

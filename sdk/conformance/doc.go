// Package conformance runs suites that check plugins against their contracts, inside `go test`
// and outside of it.
//
// A Suite is a list of cases, each with the rule of the contract that it checks. The
// packages transporttest, evicttest and alloctest make the suite of a kind from a factory:
//
//	func TestConformance(t *testing.T) { evicttest.Run(t, fifo.Factory()) }
//
//	report := conformance.Run(ctx, evicttest.Suite(fifo.Factory()), conformance.Options{})
//	err := report.WriteJUnit(w)
//
// Run bounds each check, treats a panic on the check's goroutine as a failure, and continues with
// the next check. A panic on a goroutine that the plugin itself started ends the program, as
// anywhere in Go: run a plugin that is not trusted in a process of its own.
//
// A program that runs suites links testify and rapid, 0.3 MB: property checks are part of
// every suite, inside `go test` or not.
package conformance

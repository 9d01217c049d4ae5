package conformance

import (
	"context"
	"testing"
)

// TB is what a check reports to. *testing.T and *testing.B are TBs. The methods mean what
// they mean in package testing, and are as safe for concurrent use; FailNow, Fatal and Skip
// are for the goroutine of the check only.
type TB interface {
	Helper()
	Name() string
	Log(args ...any)
	Logf(format string, args ...any)
	Error(args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Skip(args ...any)
	Skipf(format string, args ...any)
	Fail()
	FailNow()
	SkipNow()
	Failed() bool
	Skipped() bool
	// Cleanup has f called when the check ends, the latest first.
	Cleanup(f func())
	// TempDir returns a folder that is removed when the check ends.
	TempDir() string
	// Context ends just before the functions of Cleanup are called, and when the check exceeds
	// its limit.
	Context() context.Context
}

// T is a TB that can have subtests.
type T interface {
	TB
	// Run runs f as a subtest with a name of its own, and reports whether it passed. A failed
	// subtest fails the whole check.
	Run(name string, f func(T)) bool
}

// Adapt makes a T of a test.
func Adapt(t *testing.T) T { return goTest{t} }

type goTest struct{ *testing.T }

func (g goTest) Run(name string, f func(T)) bool {
	return g.T.Run(name, func(t *testing.T) { f(goTest{t}) })
}

// figures is implemented by a TB that records figures.
type figures interface{ figure(Figure) }

// AddFigure reports a measured number. No value is a failure. Inside of `go test` the number is
// logged.
func AddFigure(t TB, name string, value float64, unit string) {
	if r, ok := t.(figures); ok {
		r.figure(Figure{Check: t.Name(), Name: name, Value: value, Unit: unit})
		return
	}
	t.Logf("%s: %.6g %s", name, value, unit)
}

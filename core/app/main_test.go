package app

import (
	"os"
	"os/signal"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// Run takes signals for itself only while it runs: one that a test sends when it is about to
	// return would end the tests.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM)
	// signal.Notify starts one goroutine for the life of the process.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("os/signal.signal_recv"), goleak.IgnoreTopFunction("os/signal.loop"))
}

package main

/*
#include "cgo.h"
*/
import "C"

import (
	"os"
	"os/signal"
	"runtime/pprof"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/cmd/mooncake/builtin"
	"github.com/mooncake-go/mooncake/cmd/mooncake/cli"
)

// exitTraced is the exit code of a Go program that printed the stacks of its goroutines.
const exitTraced = 2

// mck_main is the program mooncake. The launcher beside the library is a main function that calls
// it, so that a package with both has the code once. It does not return.
//
//export mck_main
func mck_main(argc C.int, argv **C.char) C.int {
	args := make([]string, argc)
	for i, arg := range unsafe.Slice(argv, argc) {
		args[i] = C.GoString(arg)
	}
	stacksOnQuit()
	// The goroutine that C called is bound to C's thread, and each of its waits would cost two
	// thread switches. The program runs on another goroutine.
	code := make(chan int)
	go func() { code <- cli.Main(args, builtin.Plugins()) }()
	os.Exit(<-code)
	return 0 // for C; os.Exit does not return
}

// stacksOnQuit makes SIGQUIT end the process and print the stacks of all goroutines. A Go program
// does so by itself, even if it started with the signal ignored. In a library the runtime leaves
// the signal to the host.
func stacksOnQuit() {
	quit := make(chan os.Signal, 1)
	signal.Notify(quit, unix.SIGQUIT)
	go func() {
		<-quit
		os.Stderr.WriteString("SIGQUIT: quit\n\n")
		_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 2)
		os.Exit(exitTraced)
	}()
}

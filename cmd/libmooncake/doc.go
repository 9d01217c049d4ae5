// Command libmooncake is a C shared library (-buildmode=c-shared) with the store and the transfer
// engine. Loading it starts the Go runtime and nothing else.
//
// It has four APIs: the program mooncake (program.go, launcher), the calls of the Python extension
// (include/mooncake_native.h, mck_*), the C ABI of the store (include/store_c.h) and that of the
// transfer engine (transfer_engine_c.h). The files here convert arguments and results between C
// and Go. The calls are implemented in core/bindings/store, core/bindings/engine and
// core/bindings/upstream, which use no cgo.
//
// Except for the program, the library handles no signal and does not fork, unless a program asks
// it to end engines at a signal (enableGracefulShutdown). A child of a process that has loaded the
// library cannot use it.
package main

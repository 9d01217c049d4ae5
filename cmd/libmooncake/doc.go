// Command libmooncake is a C shared library (-buildmode=c-shared) with the store and the
// transfer engine in it. Loading it starts the Go runtime and nothing else.
//
// It has four faces: the program mooncake (program.go, launcher), what the Python extension
// calls (include/mooncake_native.h, mck_*), the store's C ABI (include/store_c.h) and the
// transfer engine's (transfer_engine_c.h).
// The files here turn C's arguments into Go's and back; what the calls do is in
// core/bindings/store and core/bindings/engine, which are without cgo.
//
// Apart from the program, the library takes over no signal and does not fork. A child of a
// process that has loaded it cannot use it.
package main

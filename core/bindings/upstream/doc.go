// Package upstream is what the reference implementation's C ABI of the transfer engine
// (include/transfer_engine_c.h) means: transports that are installed one by one, segments
// and batches that are known by numbers, tasks that are polled, and that ABI's own error
// numbers. It stands on package bindings/engine and is without cgo.
package upstream

// Package upstream implements the C ABI of the reference implementation's transfer engine
// (include/transfer_engine_c.h): programs install transports one by one, name segments and batches
// by number, poll tasks, and get the error numbers of that ABI. It uses core/bindings/engine and no
// cgo.
package upstream

// Package engine is the transfer engine for programs in other languages. An Engine is made first
// and initialized later. Its calls return errors and record their texts. It names memory by
// address and batches by number. The package uses no cgo: cmd/libmooncake converts the arguments
// of C.
//
// Every wait is bounded. A call on an engine that is not initialized returns
// UnavailableInCurrentStatus.
package engine

package rpc

import (
	"unsafe"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Keys are strings here and bytes on the wire. Both directions share the memory: a key a
// item is the largest part of a batch, and neither side writes to a message or a key
// after it was made.

// keyBytes views keys as the field of a message, which must only be read.
func keyBytes(keys []model.Key) [][]byte {
	out := make([][]byte, len(keys))
	for i, k := range keys {
		out[i] = keyAsBytes(k)
	}
	return out
}

func keyAsBytes(k model.Key) []byte { return unsafe.Slice(unsafe.StringData(k), len(k)) }

// keyStrings views the field of a decoded message as keys. The message must not be
// changed or decoded into again.
func keyStrings(b [][]byte) []model.Key {
	out := make([]model.Key, len(b))
	for i, k := range b {
		out[i] = unsafe.String(unsafe.SliceData(k), len(k))
	}
	return out
}

// checkItems refuses a batch that is larger than any client of ours sends.
func checkItems(n int) error {
	if n > maxItems {
		return errs.New(errs.InvalidParams, "master: batch", "it has %d items; at most %d are taken in one call", n, maxItems)
	}
	return nil
}

package datapath

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"
)

type word = atomic.Uint32

func leUint64(b []byte) uint64 { return binary.NativeEndian.Uint64(b) }

// poke writes into the memory that the plugin shares, as it may at any time. An offset of
// 128 or more below the entries of a ring is one of its indices.
func (r *rig) poke(at, sub int, v uint64) {
	atomic.StoreUint64((*uint64)(unsafe.Pointer(&r.p.mem.Bytes()[at+sub])), v)
}

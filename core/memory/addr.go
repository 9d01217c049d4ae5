package memory

import "unsafe"

// AddrOf returns the address of the first byte of b in this process, 0 for an empty
// slice. The address is meaningful as long as b is referenced: neither mappings nor heap
// objects move.
func AddrOf(b []byte) uint64 {
	if len(b) == 0 {
		return 0
	}
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
}

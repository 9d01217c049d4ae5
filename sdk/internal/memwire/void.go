package memwire

import (
	"errors"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/sdk/x/shm"
)

// void is the place of an area that the plugin has given back. Memory of its own is mapped there in place of the host's, so
// that a plugin that goes on using the area harms neither the host nor what the kernel would map there next, and is found out.
type void struct{ mem *shm.Memory }

// newVoid replaces the mapping of an area. It returns nil, and has unmapped the area, if the kernel refuses, or makes the pages
// of new mappings at once (mlockall).
func newVoid(mem *shm.Memory) *void {
	b := mem.Bytes()
	_, err := unix.MmapPtr(-1, 0, unsafe.Pointer(unsafe.SliceData(b)), uintptr(len(b)),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE|unix.MAP_FIXED)
	if v := (&void{mem}); err == nil && !v.touched() {
		return v
	}
	_ = mem.Close()
	return nil
}

// errUsed is a use of memory that was given back.
var errUsed = errors.New("memory of the host was used after Deregister of its region had returned without an error; Deregister has to wait for operations of peers that have begun")

// close unmaps the place. It returns errUsed if memory there was used.
func (v *void) close() error {
	if v == nil {
		return nil
	}
	touched := v.touched()
	_ = v.mem.Close()
	if touched {
		return errUsed
	}
	return nil
}

// touched reports whether a page of the place exists: the kernel makes one at the first access.
func (v *void) touched() bool {
	const window = 256 << 20 // bytes for which mincore is asked at a time
	page := os.Getpagesize()
	exists := make([]byte, window/page)
	for b := range slices.Chunk(v.mem.Bytes(), window) {
		_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), uintptr(unsafe.Pointer(unsafe.SliceData(exists))))
		if errno != 0 {
			return false
		}
		if slices.ContainsFunc(exists[:(len(b)+page-1)/page], func(c byte) bool { return c&1 != 0 }) {
			return true
		}
	}
	return false
}

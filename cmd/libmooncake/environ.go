package main

/*
extern char **environ;
*/
import "C"

import "unsafe"

// maxEnviron bounds the variables that are read.
const maxEnviron = 1 << 16

// environ returns the present environment. os.Environ has the one from the time at which the
// library was loaded, and the host may have changed it since.
func environ() []string {
	var out []string
	at := C.environ
	for at != nil && *at != nil && len(out) < maxEnviron {
		out = append(out, C.GoString(*at))
		at = (**C.char)(unsafe.Add(unsafe.Pointer(at), unsafe.Sizeof(*at)))
	}
	return out
}

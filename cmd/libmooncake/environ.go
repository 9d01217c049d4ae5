package main

/*
extern char **environ;
*/
import "C"

import "unsafe"

// maxEnviron bounds the variables that are read.
const maxEnviron = 1 << 16

// environ is the environment as it is now. What os.Environ has is from when the library was
// loaded, and its host may have changed it since.
func environ() []string {
	var out []string
	at := C.environ
	for at != nil && *at != nil && len(out) < maxEnviron {
		out = append(out, C.GoString(*at))
		at = (**C.char)(unsafe.Add(unsafe.Pointer(at), unsafe.Sizeof(*at)))
	}
	return out
}

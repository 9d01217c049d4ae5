package verbs

import (
	"cmp"
	"fmt"
	"os"
	"unsafe"
)

// Library is the name that Open looks for when it is given none.
const Library = "libibverbs.so.1"

// LibraryEnv names an environment variable with a path that Open takes instead of Library.
const LibraryEnv = "MOONCAKE_LIBIBVERBS"

// features says what the library can do beyond what all versions can.
type features uint32

const (
	// featRelaxed: AccessRelaxedOrdering has an effect.
	featRelaxed features = 1 << 0
	// featDMABuf: PD.RegDMABuf works, if the device allows.
	featDMABuf features = 1 << 1
	// featGIDTable: the table of addresses is read in one call, with types.
	featGIDTable features = 1 << 2
)

// Lib is a loaded libibverbs. It stays loaded until the process ends, since the threads and the
// drivers of a library cannot be unloaded safely; opening a path again gives the same library.
type Lib struct {
	h    unsafe.Pointer
	path string
	feat features
}

// Open loads the library at path: a file, or a name that the dynamic linker looks for. An
// empty path stands for the value of LibraryEnv or else for Library. The error matches
// ErrUnavailable, and holds the path and the reason of the dynamic linker.
func Open(path string) (*Lib, error) {
	path = cmp.Or(path, os.Getenv(LibraryEnv), Library)
	h, feat, reason := sysOpen(path)
	if h == nil {
		return nil, fmt.Errorf("%w: %s: %s", ErrUnavailable, path, reason)
	}
	return &Lib{h: h, path: path, feat: features(feat)}, nil
}

// Path returns what was opened.
func (l *Lib) Path() string { return l.path }

func (l *Lib) has(f features) bool { return l.feat&f != 0 }

// ForkInit makes registered memory survive a fork of this process by foreign code, such as
// Python's. It must come before any device is opened. Go's own os/exec does not need it.
func (l *Lib) ForkInit() error {
	return callError("ibv_fork_init", sysForkInit(l.h), "", "")
}

// Devices lists the devices that the library has a driver for. An empty list is no error.
func (l *Lib) Devices() ([]DeviceInfo, error) {
	list, errno := sysDevices(l.h)
	return list, callError("ibv_get_device_list", errno, "", "")
}

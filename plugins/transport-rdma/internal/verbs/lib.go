package verbs

import (
	"os"
	"unsafe"
)

// Library is the name that Open looks for when it is given none.
const Library = "libibverbs.so.1"

// LibraryEnv names an environment variable with a path that Open takes instead of Library.
const LibraryEnv = "MOONCAKE_LIBIBVERBS"

// Features says what the library can do beyond what all versions can.
type Features struct {
	// RelaxedOrdering: AccessRelaxedOrdering has an effect.
	RelaxedOrdering bool
	// DMABuf: PD.RegDMABuf works, if the device allows.
	DMABuf bool
	// GIDTable: the table of addresses is read in one call, with types.
	GIDTable bool
}

const (
	featRelaxed  = 1 << 0
	featDMABuf   = 1 << 1
	featGIDTable = 1 << 2
)

// Lib is a loaded libibverbs. It stays loaded until the process ends, since the threads and the
// drivers of a library cannot be unloaded safely; opening a path again gives the same library.
type Lib struct {
	h    unsafe.Pointer
	path string
	feat Features
}

// Open loads the library at path: a file, or a name that the dynamic linker looks for. An
// empty path stands for the value of LibraryEnv or else for Library. The error matches
// ErrUnavailable, as *UnavailableError.
func Open(path string) (*Lib, error) {
	if path == "" {
		path = os.Getenv(LibraryEnv)
	}
	if path == "" {
		path = Library
	}
	h, feat, reason := sysOpen(path)
	if h == nil {
		return nil, &UnavailableError{Path: path, Reason: reason}
	}
	return &Lib{h: h, path: path, feat: Features{
		RelaxedOrdering: feat&featRelaxed != 0,
		DMABuf:          feat&featDMABuf != 0,
		GIDTable:        feat&featGIDTable != 0,
	}}, nil
}

// Path returns what was opened.
func (l *Lib) Path() string { return l.path }

// Features returns what the library can do.
func (l *Lib) Features() Features { return l.feat }

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

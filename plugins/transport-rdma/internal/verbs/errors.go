package verbs

import (
	"errors"
	"fmt"
	"syscall"
)

var (
	// ErrUnavailable says that there is no libibverbs to work with.
	ErrUnavailable = errors.New("verbs: libibverbs is not available")
	// ErrClosed is returned for an object after its Close.
	ErrClosed = errors.New("verbs: closed")
	// ErrBusy is returned for a second CQ.Wait or Context.NextEvent at the same time.
	ErrBusy = errors.New("verbs: another goroutine is waiting already")
	// ErrState is returned for an operation that the state of the QP does not allow.
	ErrState = errors.New("verbs: the state of the QP does not allow this")
	// ErrBudget is returned for a QP whose depth is more than its CQ has left.
	ErrBudget = errors.New("verbs: the completion queue has no space for the depth of the QP")
	// ErrUnsupported is returned for what this version of the library cannot do.
	ErrUnsupported = errors.New("verbs: not supported by this libibverbs")
)

// Error is a verbs call that failed. It unwraps to its Errno, so that
// errors.Is(err, syscall.ENOMEM) works.
type Error struct {
	// Call is the function of libibverbs: "ibv_reg_mr".
	Call  string
	Errno syscall.Errno
	// Device is the device's name, "" before one is open.
	Device string
	// Object says what the call was about, with its numbers: "QP 17 to RTR", "4096 bytes at 0xc000".
	Object string
}

// Error implements error.
func (e *Error) Error() string {
	about := ""
	if e.Device != "" {
		about = " on " + e.Device
	}
	if e.Object != "" {
		about += " (" + e.Object + ")"
	}
	return fmt.Sprintf("verbs: %s%s: %s (errno %d)", e.Call, about, e.Errno.Error(), int(e.Errno))
}

// Unwrap returns the Errno.
func (e *Error) Unwrap() error { return e.Errno }

// callError makes an *Error of a positive errno, nil of 0.
func callError(call string, errno int32, device, object string) error {
	if errno == 0 {
		return nil
	}
	return &Error{Call: call, Errno: syscall.Errno(errno), Device: device, Object: object}
}

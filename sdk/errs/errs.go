// Package errs is the one error vocabulary of Mooncake, in process and across every
// edge.
//
// A Code says what kind of refusal or failure happened, in numbers that operators and
// inference engines already branch on (the numbers of the reference implementation's
// ErrorCode). A Class says what a caller may do about it, and is what the transfer
// engine fails over on. Each edge (gRPC, HTTP, C, Python) maps codes in one table of its
// own; no other place invents numbers.
package errs

import (
	"errors"
	"fmt"
)

// Error is an error with a Code and a Class.
//
// Op names the operation and its subject in the order "subsystem: verb object"
// ("master: put start \"k1\""), Err is the cause, Hint is the next step for a person.
type Error struct {
	Code  Code
	Class Class
	Op    string
	Hint  string
	Err   error
}

// Error formats "op: CODE_NAME: cause (hint)", leaving out what is empty and a code that
// the cause already names.
func (e *Error) Error() string {
	s := e.Op
	join := func(part string) {
		if part == "" {
			return
		}
		if s != "" {
			s += ": "
		}
		s += part
	}
	if e.Code != OK && e.Code != Internal && !(e.Err != nil && CodeOf(e.Err) == e.Code) {
		join(e.Code.String())
	}
	if e.Err != nil {
		join(e.Err.Error())
	}
	if s == "" {
		s = e.Code.String()
	}
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is an *Error that carries the same Code and nothing else, so
// that errors.Is(err, errs.ObjectNotFound.Err()) works at any depth of wrapping.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Op == "" && t.Err == nil && t.Code == e.Code
}

// New returns an error with a code; format and args describe the cause.
func New(code Code, op, format string, args ...any) *Error {
	return &Error{Code: code, Class: code.class(), Op: op, Err: fmt.Errorf(format, args...)}
}

// Wrap attaches a code and an operation to err. It returns nil for a nil err. The class
// is kept from err where err already carries one.
func Wrap(code Code, op string, err error) error {
	if err == nil {
		return nil
	}
	class := code.class()
	if c := ClassOf(err); c != ClassUnknown {
		class = c
	}
	return &Error{Code: code, Class: class, Op: op, Err: err}
}

// WithClass attaches a class to err, keeping its code (Internal where it has none).
func WithClass(class Class, op string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Code: CodeOf(err), Class: class, Op: op, Err: err}
}

// WithHint attaches the next step a person should take.
func WithHint(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return &Error{Code: CodeOf(err), Class: ClassOf(err), Hint: fmt.Sprintf(format, args...), Err: err}
}

// CodeOf returns the code nearest to the outside of err: OK for nil, Internal where no
// error in the chain carries one.
func CodeOf(err error) Code {
	if err == nil {
		return OK
	}
	if e, ok := err.(*Error); ok { //nolint:errorlint // What most errors are, without an allocation.
		return e.Code
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return Internal
}

// Is reports whether err carries code.
func Is(err error, code Code) bool { return err != nil && CodeOf(err) == code }

// ClassOf returns the class nearest to the outside of err, ClassUnknown where none is
// carried and for nil.
func ClassOf(err error) Class {
	var e *Error
	if errors.As(err, &e) {
		return e.Class
	}
	return ClassUnknown
}

// ErrForeign is in the chain of an error of an address whose server uses another protocol: another
// program, another port of the right program, or the reference implementation. Such an error is
// ClassPermanent, because a retry reaches the same server.
var ErrForeign = errors.New("another protocol")

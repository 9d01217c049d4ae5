package convert

import (
	"context"
	"errors"

	"google.golang.org/grpc/status"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"
	pluginv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/plugin/v1"

	"github.com/mooncake-go/mooncake/core/api/rpc"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// remoteError is an error that the other side made: its text as it was there, and its
// code and class for errs.CodeOf, errs.ClassOf and errors.Is.
type remoteError struct {
	code  errs.Code
	class errs.Class
	text  string
}

// Error returns the text of the other side.
func (e *remoteError) Error() string { return e.text }

// As makes errors.As find an *errs.Error.
func (e *remoteError) As(target any) bool {
	p, ok := target.(**errs.Error)
	if ok {
		*p = &errs.Error{Code: e.code, Class: e.class, Err: errors.New(e.text)}
	}
	return ok
}

// Is makes errors.Is match the sentinel of the code.
func (e *remoteError) Is(target error) bool { return (&errs.Error{Code: e.code}).Is(target) }

// toError returns err as a message. err is not nil.
func toError(err error) *pluginv1.Error {
	code := errs.CodeOf(err)
	switch {
	case code == errs.OK:
		code = errs.Internal // An error that claims success must not become one.
	case code == errs.Internal && errors.Is(err, context.DeadlineExceeded):
		code = errs.RPCTimeout
	}
	return &pluginv1.Error{Code: int32(code), Class: uint32(errs.ClassOf(err)), Message: Clip(err.Error())}
}

// Clip makes a sentence fit for a message.
func Clip(s string) string {
	if len(s) > rpc.MaxErrorBytes {
		s = s[:rpc.MaxErrorBytes] + "..."
	}
	return Text(s)
}

// FromError returns the error in a message. A number that cannot be an error (0 or above)
// is Internal, a class that this side does not know is unknown.
func FromError(e *pluginv1.Error) error {
	r := &remoteError{code: errs.Code(e.GetCode()), text: e.GetMessage()}
	if r.code >= 0 {
		r.code = errs.Internal
	}
	if c := e.GetClass(); c <= uint32(errs.ClassPermanent) {
		r.class = errs.Class(c)
	}
	if r.text == "" {
		r.text = r.code.String()
	}
	return r
}

// ToErrors returns the entries of the items that failed, given how many there are and
// the error of each.
func ToErrors(n int, at func(int) error) []*masterv1.ItemError {
	var out []*masterv1.ItemError
	for i := range n {
		if err := at(i); err != nil {
			out = append(out, &masterv1.ItemError{Index: uint32(i), Error: toError(err)})
		}
	}
	return out
}

// spreadErrors calls set for every entry. It refuses an index outside of n items.
func spreadErrors(n int, list []*masterv1.ItemError, set func(int, error)) error {
	for _, e := range list {
		if uint64(e.GetIndex()) >= uint64(n) {
			return Malformed("an error for item %d of %d", e.GetIndex(), n)
		}
		set(int(e.GetIndex()), FromError(e.GetError()))
	}
	return nil
}

// StatusError returns err as a gRPC status with the code, class and text as detail.
func StatusError(err error) error {
	w := toError(err)
	st := status.New(toGRPC(errs.Code(w.GetCode())), w.GetMessage())
	if with, detailErr := st.WithDetails(w); detailErr == nil {
		st = with
	}
	return st.Err()
}

// FromStatus returns the error that a gRPC status has as detail, nil if it has none.
func FromStatus(st *status.Status) error {
	for _, d := range st.Details() {
		if e, ok := d.(*pluginv1.Error); ok {
			return FromError(e)
		}
	}
	return nil
}

// Malformed is the error for a message that breaks the contract of its columns.
func Malformed(format string, args ...any) error {
	return errs.New(errs.DeserializeFail, "master protocol: Malformed message", format, args...)
}

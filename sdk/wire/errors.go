package wire

import (
	"context"
	"errors"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mooncake-go/mooncake/sdk/errs"
	pluginv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/plugin/v1"
)

// statusTable is the one place where error codes and gRPC codes meet. To a status the
// first row of an errs.Code counts, from a bare status the first row of a gRPC code. A
// status that we made carries the errs.Code itself, so the second direction is for
// failures of the connection.
var statusTable = []struct {
	code errs.Code
	grpc codes.Code
}{
	{errs.Internal, codes.Internal},
	{errs.RPCFail, codes.Unavailable},
	{errs.RPCTimeout, codes.DeadlineExceeded},
	{errs.RPCFail, codes.Canceled},
	{errs.RPCFail, codes.Aborted},
	{errs.InvalidParams, codes.InvalidArgument},
	{errs.InvalidKey, codes.InvalidArgument},
	{errs.InvalidVersion, codes.FailedPrecondition},
	{errs.UnavailableInCurrentStatus, codes.FailedPrecondition},
	{errs.UnavailableInCurrentMode, codes.FailedPrecondition},
	{errs.NotSupported, codes.Unimplemented},
	{errs.BufferOverflow, codes.ResourceExhausted},
	{errs.NoAvailableHandle, codes.ResourceExhausted},
	{errs.SegmentNotFound, codes.NotFound},
	{errs.ObjectNotFound, codes.NotFound},
	{errs.SegmentAlreadyExists, codes.AlreadyExists},
	{errs.ObjectAlreadyExists, codes.AlreadyExists},
	{errs.IllegalClient, codes.PermissionDenied},
}

func grpcCode(c errs.Code) codes.Code {
	for _, row := range statusTable {
		if row.code == c {
			return row.grpc
		}
	}
	return codes.Unknown
}

func errsCode(c codes.Code) errs.Code {
	for _, row := range statusTable {
		if row.grpc == c {
			return row.code
		}
	}
	return errs.Internal
}

// ToProto turns an error into a message, nil into nil. The text is cut to 512 bytes,
// because a batch may carry thousands of them.
func ToProto(err error) *pluginv1.Error { return toProto(err, MaxItemText) }

func toProto(err error, limit int) *pluginv1.Error {
	if err == nil {
		return nil
	}
	code, class := errs.CodeOf(err), errs.ClassOf(err)
	if code == errs.Internal || code == errs.OK {
		code = errs.Internal
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			code = errs.RPCTimeout
		case errors.Is(err, context.Canceled):
			code = errs.RPCFail
		}
	}
	return &pluginv1.Error{Code: int32(code), Class: uint32(class), Message: Clip(err.Error(), limit)}
}

// FromProto turns a message into an error that carries its code and class. Code 0 and nil
// are no error. An unknown code becomes Internal, an unknown class ClassUnknown.
func FromProto(m *pluginv1.Error) error {
	if m.GetCode() == 0 {
		return nil
	}
	return fromProto(m)
}

// FromAnswer is FromProto for an error inside the answer of the operation op. Its text is that of Named.
func FromAnswer(op string, m *pluginv1.Error) error {
	if m.GetCode() == 0 {
		return nil
	}
	return named(op, m)
}

// named is fromProto with the text of Named.
func named(op string, m *pluginv1.Error) *errs.Error {
	e := fromProto(&pluginv1.Error{Code: m.GetCode(), Class: m.GetClass(), Message: unnamed(op, m.GetMessage())})
	e.Op = op
	return e
}

func fromProto(m *pluginv1.Error) *errs.Error {
	code := errs.Code(m.GetCode())
	if code == errs.OK || !slices.Contains(errs.Codes(), code) {
		code = errs.Internal
	}
	class := errs.ClassUnknown
	if m.GetClass() <= uint32(errs.ClassPermanent) {
		class = errs.Class(m.GetClass())
	}
	text := Clip(m.GetMessage(), MaxText)
	if text == "" {
		text = code.String()
	}
	cause := &remoteError{text: text, code: code, class: class}
	return &errs.Error{Code: code, Class: class, Err: cause}
}

// remoteError is the text of an error from the other side. The text names the code
// already; answering to As keeps errs.Error from naming it again.
type remoteError struct {
	text  string
	code  errs.Code
	class errs.Class
}

func (e *remoteError) Error() string { return e.text }

func (e *remoteError) As(target any) bool {
	t, ok := target.(**errs.Error)
	if ok {
		*t = &errs.Error{Code: e.code, Class: e.class}
	}
	return ok
}

// ToStatus turns an error into a gRPC status error with an Error message in its details,
// nil into nil.
func ToStatus(err error) error {
	if err == nil {
		return nil
	}
	m := toProto(err, MaxText)
	st := status.New(grpcCode(errs.Code(m.GetCode())), m.GetMessage())
	if detailed, derr := st.WithDetails(m); derr == nil {
		st = detailed
	}
	return st.Err()
}

// Named returns the text of an error of the operation op, which begins with the plugin's ID, as in "evict/lru: start". It has op
// once, although text may begin with op, or with the plugin and another of its operations, as texts of other layers and of plugins of
// earlier releases do.
func Named(op, text string) string { return op + ": " + unnamed(op, text) }

// Wrap is errs.Wrap for an error of a plugin. Its text is that of Named. Nil stays nil.
func Wrap(code errs.Code, op string, err error) error {
	if err == nil {
		return nil
	}
	return errs.Wrap(code, op, &unnamedError{err, unnamed(op, err.Error())})
}

// Namer is the ID of a plugin, for the errors of its calls.
type Namer string

// Err is Wrap for an error of the operation verb of the plugin. It keeps the code.
func (n Namer) Err(verb string, err error) error {
	if err == nil {
		return nil // Without making the name: calls that succeed are many.
	}
	return Wrap(errs.CodeOf(err), string(n)+": "+verb, err)
}

// unnamedError is an error without the names that the one around it has.
type unnamedError struct {
	error
	text string
}

func (e *unnamedError) Error() string { return e.text }
func (e *unnamedError) Unwrap() error { return e.error }

// unnamed removes the names of the plugin and of its operation from the beginning of text.
func unnamed(op, text string) string {
	id, verb, _ := strings.Cut(op, ": ")
	for {
		rest, again := strings.CutPrefix(text, id+": ")
		if again && verb == "configure" {
			rest = strings.TrimPrefix(rest, "configuration: ")
		}
		if again {
			rest = strings.TrimPrefix(rest, verb+": ")
		}
		if !again || rest == "" {
			return text
		}
		text = rest
	}
}

// FromStatus turns what a gRPC call returned into an error of ours, naming op. The error has the text of Named. A status
// without our details is a failure of the connection or of gRPC.
func FromStatus(op string, err error) error {
	if err == nil {
		return nil
	}
	st := status.Convert(err)
	for _, d := range st.Details() {
		if m, ok := d.(*pluginv1.Error); ok {
			return named(op, m)
		}
	}
	return errs.New(errsCode(st.Code()), op, "%s", Clip(st.Message(), MaxText))
}

// Clip makes text safe to send and to show: valid UTF-8 of at most limit bytes.
func Clip(text string, limit int) string {
	if len(text) > limit {
		text = text[:limit]
	}
	return strings.ToValidUTF8(text, "")
}

// Columns checks that the columns of a message are equally long and not too long.
func Columns(op string, n, limit int, others ...int) error {
	if n > limit {
		return errs.New(errs.InvalidParams, op, "%d items in one message, at most %d are allowed", n, limit)
	}
	for _, o := range others {
		if o != n {
			return errs.New(errs.InvalidParams, op, "columns have %d and %d items, want equally many", n, o)
		}
	}
	return nil
}

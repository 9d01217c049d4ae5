package trace

import (
	"errors"
	"fmt"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// The reasons for which a line is refused, for errors.Is on a LineError.
var (
	// ErrLineTooLong: the line is longer than MaxLine.
	ErrLineTooLong = errors.New("the line is too long")
	// ErrSyntax: the line is not a JSON object of the expected types.
	ErrSyntax = errors.New("the line is not a request")
	// ErrMissing: a required key is absent.
	ErrMissing = errors.New("a required key is missing")
	// ErrRange: a value is negative or larger than could be meant.
	ErrRange = errors.New("a value is out of range")
)

// LineError says which line of a trace is wrong and why. Its code is InvalidParams.
type LineError struct {
	// Line counts from 1.
	Line int
	Err  error
}

// Error names the line, the reason and what was expected there.
func (e *LineError) Error() string { return fmt.Sprintf("trace line %d: %v", e.Line, e.Err) }

// Unwrap gives the reason, and the error code for the edges.
func (e *LineError) Unwrap() []error { return []error{e.Err, errs.InvalidParams.Err()} }

package config

import (
	"errors"
	"strconv"
	"strings"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// ExitUsage is the exit code of a process that was configured wrongly.
const ExitUsage = 2

// Problem is one thing that is wrong with the configuration. It carries
// errs.InvalidParams.
type Problem struct {
	// Origin is where the value was given.
	Origin Origin
	// Key is the setting, empty where the origin names it or no single one is meant.
	Key string
	// Value is what was given, redacted where it may be a secret; nil where the problem
	// is not about a value.
	Value *string
	// Reason says what is wrong and what is allowed, Hint what to do.
	Reason string
	Hint   string
}

// Error formats "origin: key = value: reason; hint".
func (p *Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.Origin.String())
	if p.Key != "" {
		b.WriteString(": " + p.Key)
	}
	if p.Value != nil {
		b.WriteString(" = " + strconv.Quote(*p.Value))
	}
	b.WriteString(": " + p.Reason)
	if p.Hint != "" {
		b.WriteString("; " + p.Hint)
	}
	return b.String()
}

// As lets errors.As and errs.CodeOf see the code of the public API.
func (p *Problem) As(target any) bool {
	e, ok := target.(**errs.Error)
	if ok {
		*e = &errs.Error{Code: errs.InvalidParams, Class: errs.ClassPermanent, Err: errors.New(p.Error())}
	}
	return ok
}

// Problems are all that is wrong, in the order it was found; never empty.
type Problems []*Problem

// Error lists the problems, one a line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the problems.
func (ps Problems) Unwrap() []error {
	out := make([]error, len(ps))
	for i, p := range ps {
		out[i] = p
	}
	return out
}

// IsUsage reports whether err says that the process was configured or called wrongly, so
// that it should end with ExitUsage.
func IsUsage(err error) bool {
	var p *Problem
	return errors.As(err, &p)
}

// Warning is something that is accepted and does not do what its author may expect.
type Warning struct {
	Origin Origin
	// Name is the setting as it was spelled.
	Name string
	Text string
}

// String formats the warning for a person.
func (w Warning) String() string {
	if w.Origin.Name == "" {
		return w.Origin.String() + ": " + w.Name + " " + w.Text
	}
	return w.Origin.String() + " " + w.Text
}

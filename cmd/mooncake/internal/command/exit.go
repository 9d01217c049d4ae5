package command

import (
	"errors"
	"fmt"

	"github.com/mooncake-go/mooncake/core/app"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// The exit codes, as `mooncake help exit-codes` documents them.
const (
	ExitOK       = 0
	ExitFailure  = 1
	ExitUsage    = 2
	ExitNotFound = 3
	ExitKilled   = 130
)

// ExitHelp documents the exit codes.
const ExitHelp = `Exit codes of every mooncake command:

    0  success
    1  the command failed while running: a port in use, an unreachable master, a wrong page,
       a plugin that does not start, a pool that is full
    2  the command line or the configuration is wrong: an unknown flag or key, a malformed
       size or duration, a configuration that cannot work, a key that is empty or too long
    3  the object does not exist (client get, exist, remove), or no process uses the
       plugin (plugins reload)
  130  a second signal ended the process before it had drained

Under the names of upstream's programs, such as mooncake_master, 1 stands for 2 as well,
as it does there. 'mooncake hicache-sizing' has exit codes of its own, 0, 1, 2 and 64; see its
help.
`

// usageError marks an error of the caller: exit code 2.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// Usage marks an error as one of the caller, for exit code 2. It returns nil for nil.
func Usage(err error) error {
	if err == nil {
		return nil
	}
	return &usageError{err}
}

// Usagef makes an error of the caller.
func Usagef(format string, args ...any) error { return Usage(fmt.Errorf(format, args...)) }

// Quiet ends a verb that has printed its error itself with an exit code.
type Quiet struct{ Code int }

func (e *Quiet) Error() string { return fmt.Sprintf("exit code %d", e.Code) }

// ExitCode returns the exit code for an error.
func ExitCode(err error) int {
	var u *usageError
	var q *Quiet
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &q):
		return q.Code
	case errors.As(err, &u):
		return ExitUsage
	case errors.Is(err, app.ErrKilled):
		return ExitKilled
	case errs.Is(err, errs.InvalidParams), errs.Is(err, errs.InvalidKey):
		return ExitUsage
	case errs.Is(err, errs.ObjectNotFound):
		return ExitNotFound
	default:
		return ExitFailure
	}
}

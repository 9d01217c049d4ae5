package cli

import (
	"errors"
	"fmt"

	"github.com/mooncake-go/mooncake/core/app"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// The exit codes, as `mooncake help exit-codes` documents them.
const (
	exitOK       = 0
	exitFailure  = 1
	exitUsage    = 2
	exitNotFound = 3
	exitKilled   = 130
)

const exitHelp = `Exit codes of every mooncake command:

    0  success
    1  it failed while running: a port in use, an unreachable master, a wrong page,
       a plugin that does not start, a pool that is full
    2  it was asked wrongly: an unknown flag or key, a malformed size or duration, a
       configuration that cannot work, a key that is empty or too long
    3  the object does not exist (client get, exist, remove), or no process uses the
       plugin (plugins reload)
  130  a second signal ended it before it had drained

Under the names of upstream's programs, such as mooncake_master, 1 stands for 2 as well,
as it does there. 'mooncake hicache-sizing' has codes of its own, 0, 1, 2 and 64; see its help.
`

// usageError marks an error of the caller: exit code 2.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usage(err error) error {
	if err == nil {
		return nil
	}
	return &usageError{err}
}

func usagef(format string, args ...any) error { return usage(fmt.Errorf(format, args...)) }

// errQuiet ends a command with a code after it has said everything itself.
type errQuiet struct{ code int }

func (e *errQuiet) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// exitCode maps an error to the process's exit code.
func exitCode(err error) int {
	var u *usageError
	var q *errQuiet
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &q):
		return q.code
	case errors.As(err, &u):
		return exitUsage
	case errors.Is(err, app.ErrKilled):
		return exitKilled
	case errs.Is(err, errs.InvalidParams), errs.Is(err, errs.InvalidKey):
		return exitUsage
	case errs.Is(err, errs.ObjectNotFound):
		return exitNotFound
	default:
		return exitFailure
	}
}

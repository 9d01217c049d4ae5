package device

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/x/advice"
)

// Advised makes an error of an advice; causes say where it came from.
func Advised(a advice.Advice, causes ...error) error {
	err := errors.New(a.Why)
	if cause := errors.Join(causes...); cause != nil {
		err = fmt.Errorf("%s: %w", a.Why, cause)
	}
	return &errs.Error{Code: errs.UnavailableInCurrentStatus, Class: errs.ClassLocalDevice, Hint: a.Do, Err: err}
}

// ExplainOpen says what to do about a device that cannot be opened.
func ExplainOpen(err error) error {
	for _, e := range []error{syscall.EACCES, syscall.EPERM, syscall.ENOENT, syscall.ENODEV} {
		if errors.Is(err, e) {
			return Advised(advice.NotOpenable(), err)
		}
	}
	return err
}

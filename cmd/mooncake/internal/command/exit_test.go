package command

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mooncake-go/mooncake/core/app"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestExitCodes(t *testing.T) {
	for want, err := range map[int]error{
		0:   nil,
		1:   errors.New("port in use"),
		2:   Usage(errors.New("no such flag")),
		3:   fmt.Errorf("get: %w", errs.New(errs.ObjectNotFound, "get", "gone")),
		130: fmt.Errorf("stop: %w", app.ErrKilled),
		7:   &Quiet{Code: 7},
	} {
		assert.Equal(t, want, ExitCode(err), "%v", err)
	}
	assert.Equal(t, ExitUsage, ExitCode(errs.New(errs.InvalidParams, "key", "it is empty")))
	for code := range map[int]bool{ExitOK: true, ExitFailure: true, ExitUsage: true, ExitNotFound: true, ExitKilled: true} {
		assert.Contains(t, ExitHelp, fmt.Sprintf("%5d  ", code), "every code is documented")
	}
}

package errs_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestCodeSurvivesWrapping(t *testing.T) {
	cause := errors.New("connection reset")
	err := fmt.Errorf("store: get %q: %w", "k", errs.Wrap(errs.TransferFail, "transport/tcp: read", cause))

	assert.Equal(t, errs.TransferFail, errs.CodeOf(err))
	assert.Equal(t, errs.ClassTransientPeer, errs.ClassOf(err))
	assert.ErrorIs(t, err, cause)
	assert.ErrorIs(t, err, errs.TransferFail.Err())
	assert.NotErrorIs(t, err, errs.ObjectNotFound.Err())
	assert.Equal(t, `store: get "k": transport/tcp: read: TRANSFER_FAIL: connection reset`, err.Error())
}

func TestWrapKeepsTheInnerClass(t *testing.T) {
	inner := errs.WithClass(errs.ClassLocalDevice, "mlx5_0", errors.New("port down"))
	assert.Equal(t, errs.ClassLocalDevice, errs.ClassOf(errs.Wrap(errs.TransferFail, "put", inner)))
	assert.Equal(t, errs.TransferFail, errs.CodeOf(errs.WithClass(errs.ClassPermanent, "x", errs.New(errs.TransferFail, "y", "z"))))
}

func TestHintComesLast(t *testing.T) {
	err := errs.WithHint(errs.New(errs.NoAvailableHandle, "put", "the pool is full"), "mount more segments")
	assert.Equal(t, "put: NO_AVAILABLE_HANDLE: the pool is full (mount more segments)", err.Error())
}

func TestNilStaysNil(t *testing.T) {
	assert.NoError(t, errs.Wrap(errs.Internal, "op", nil))
	assert.NoError(t, errs.WithClass(errs.ClassPermanent, "op", nil))
	assert.NoError(t, errs.WithHint(nil, "hint"))
	assert.Equal(t, errs.OK, errs.CodeOf(nil))
	assert.Equal(t, errs.Internal, errs.CodeOf(errors.New("plain")))
}

func TestCodes(t *testing.T) {
	seen := map[string]errs.Code{}
	for _, c := range errs.Codes() {
		name := c.String()
		assert.NotEqual(t, "UNKNOWN_ERROR", name)
		assert.NotContains(t, seen, name, "two codes share a name")
		assert.LessOrEqual(t, int(c), 0)
		seen[name] = c
	}
	assert.Equal(t, "UNKNOWN_ERROR", errs.Code(-42424).String())
	// Numbers that connectors branch on.
	assert.Equal(t, errs.Code(-705), seen["OBJECT_ALREADY_EXISTS"])
	assert.Equal(t, errs.Code(-704), seen["OBJECT_NOT_FOUND"])
	assert.Equal(t, errs.Code(-200), seen["NO_AVAILABLE_HANDLE"])
	assert.Equal(t, errs.Code(-801), seen["CHECKSUM_MISMATCH"])
	assert.Len(t, seen, 72)
}

func TestClassNames(t *testing.T) {
	assert.Equal(t, "transient-path", errs.ClassTransientPath.String())
	assert.Equal(t, "unknown", errs.Class(200).String())
	assert.False(t, errs.ClassPermanent.Retryable())
	assert.True(t, errs.ClassUnknown.Retryable())
}

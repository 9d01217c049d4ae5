package expect_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/internal/expect"
)

// recorder keeps what an assertion says.
type recorder struct {
	said  string
	ended bool
}

func (r *recorder) Errorf(format string, args ...any) { r.said = fmt.Sprintf(format, args...) }
func (r *recorder) FailNow()                          { r.ended = true }

func TestFailuresAreSentences(t *testing.T) {
	for want, try := range map[string]func(*recorder){
		"read: it is RPC_TIMEOUT, and should be OK":              func(r *recorder) { expect.Equal(r, errs.OK, errs.RPCTimeout, "read") },
		"it is 300, and should be 4096":                          func(r *recorder) { expect.EqualValues(r, 4096, uint64(300)) },
		"it is 7, and should be another":                         func(r *recorder) { expect.NotEqual(r, 7, 7) },
		"round 3: it is 9, and should be 0":                      func(r *recorder) { expect.Zero(r, uint64(9), "round %d", 3) },
		"the ID: it is 0":                                        func(r *recorder) { expect.NotZero(r, 0, "the ID") },
		"it is 0, and should be greater than 0":                  func(r *recorder) { expect.Positive(r, 0) },
		"it is 1, and should be at least 2":                      func(r *recorder) { expect.GreaterOrEqual(r, 1, 2) },
		"it is 2, and should be less than 2":                     func(r *recorder) { expect.Less(r, 2, 2) },
		"it is 3, and should be at most 2":                       func(r *recorder) { expect.LessOrEqual(r, 3, 2) },
		"there are 2, and should be 1":                           func(r *recorder) { expect.Len(r, []int{4, 5}, 1) },
		"there is [4], and should be nothing":                    func(r *recorder) { expect.Empty(r, []int{4}) },
		"it is c, and should be one of [a b]":                    func(r *recorder) { expect.Among(r, []string{"a", "b"}, "c") },
		"a locator is used again":                                func(r *recorder) { expect.False(r, true, "a locator is used again") },
		"Stop: it fails: no":                                     func(r *recorder) { expect.NoError(r, errors.New("no"), "Stop") },
		"Start: it succeeds, and should fail":                    func(r *recorder) { expect.Error(r, nil, "Start") },
		`the error is "<nil>", and should be "context canceled"`: func(r *recorder) { expect.ErrorIs(r, nil, context.Canceled) },
	} {
		var r recorder
		try(&r)
		assert.Equal(t, want, r.said)
		assert.True(t, r.ended, "%s: the check ends", want)
	}
}

func TestWhatHoldsSaysNothing(t *testing.T) {
	var r recorder
	expect.Equal(&r, []int{1}, []int{1})
	expect.EqualValues(&r, 1, uint64(1))
	expect.NotEqual(&r, 1, 2)
	expect.Zero(&r, nil)
	expect.NotZero(&r, 1)
	expect.Positive(&r, 1)
	expect.GreaterOrEqual(&r, 2, 2)
	expect.Less(&r, 1, 2)
	expect.LessOrEqual(&r, 2, 2)
	expect.Len(&r, map[int]int{1: 1}, 1)
	expect.Empty(&r, []int(nil))
	expect.Among(&r, []int{1}, 1)
	expect.True(&r, true)
	expect.NoError(&r, nil)
	expect.Error(&r, errors.New("x"))
	expect.ErrorIs(&r, context.Canceled, context.Canceled)
	assert.Empty(t, r)
}

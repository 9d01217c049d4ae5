// Package expect has the assertions of the conformance suites. They are those of testify's require, with failures that authors of
// plugins can read: values in decimal and by name, and no place in the code of the suite. Each ends the check.
package expect

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/stretchr/testify/assert"
)

// TestingT is what a check reports to.
type TestingT interface {
	Errorf(format string, args ...any)
	FailNow()
}

// fail reports what is wrong, after what the check says about it.
func fail(t TestingT, about []any, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if said := say(about); said != "" {
		text = said + ": " + text
	}
	t.Errorf("%s", text)
	t.FailNow()
}

func say(about []any) string {
	if len(about) == 0 {
		return ""
	}
	if format, ok := about[0].(string); ok && len(about) > 1 {
		return fmt.Sprintf(format, about[1:]...)
	}
	return fmt.Sprint(about...)
}

// Equal requires that two values are equal.
func Equal(t TestingT, want, got any, about ...any) {
	if !assert.ObjectsAreEqual(want, got) {
		fail(t, about, "it is %v, and should be %v", got, want)
	}
}

// EqualValues requires that two values are equal once they have one type.
func EqualValues(t TestingT, want, got any, about ...any) {
	if !assert.ObjectsAreEqualValues(want, got) {
		fail(t, about, "it is %v, and should be %v", got, want)
	}
}

// NotEqual requires that two values differ.
func NotEqual(t TestingT, other, got any, about ...any) {
	if assert.ObjectsAreEqual(other, got) {
		fail(t, about, "it is %v, and should be another", got)
	}
}

// Zero requires the zero value.
func Zero(t TestingT, got any, about ...any) {
	if got != nil && !reflect.ValueOf(got).IsZero() {
		fail(t, about, "it is %v, and should be %v", got, reflect.Zero(reflect.TypeOf(got)))
	}
}

// NotZero requires another value than the zero value.
func NotZero(t TestingT, got any, about ...any) {
	if got == nil || reflect.ValueOf(got).IsZero() {
		fail(t, about, "it is %v", got)
	}
}

// Positive requires a number above 0.
func Positive[T cmp.Ordered](t TestingT, got T, about ...any) {
	var zero T
	Greater(t, got, zero, about...)
}

// Greater requires that got is greater than limit.
func Greater[T cmp.Ordered](t TestingT, got, limit T, about ...any) {
	if !(got > limit) {
		fail(t, about, "it is %v, and should be greater than %v", got, limit)
	}
}

// GreaterOrEqual requires that got is at least limit.
func GreaterOrEqual[T cmp.Ordered](t TestingT, got, limit T, about ...any) {
	if !(got >= limit) {
		fail(t, about, "it is %v, and should be at least %v", got, limit)
	}
}

// Less requires that got is less than limit.
func Less[T cmp.Ordered](t TestingT, got, limit T, about ...any) {
	if !(got < limit) {
		fail(t, about, "it is %v, and should be less than %v", got, limit)
	}
}

// LessOrEqual requires that got is at most limit.
func LessOrEqual[T cmp.Ordered](t TestingT, got, limit T, about ...any) {
	if !(got <= limit) {
		fail(t, about, "it is %v, and should be at most %v", got, limit)
	}
}

// Len requires the length of a list or map.
func Len(t TestingT, list any, want int, about ...any) {
	if n := reflect.ValueOf(list).Len(); n != want {
		fail(t, about, "there are %d, and should be %d", n, want)
	}
}

// Empty requires a list or map without an entry.
func Empty(t TestingT, list any, about ...any) {
	if reflect.ValueOf(list).Len() > 0 {
		fail(t, about, "there is %v, and should be nothing", list)
	}
}

// Among requires that got is one of list.
func Among[T comparable](t TestingT, list []T, got T, about ...any) {
	if !slices.Contains(list, got) {
		fail(t, about, "it is %v, and should be one of %v", got, list)
	}
}

// True requires that what about says is true.
func True(t TestingT, got bool, about ...any) {
	if !got {
		fail(t, nil, "%s", cmp.Or(say(about), "it is false, and should be true"))
	}
}

// False requires that what about says is not the case.
func False(t TestingT, got bool, about ...any) { True(t, !got, about...) }

// NoError requires nil.
func NoError(t TestingT, err error, about ...any) {
	if err != nil {
		fail(t, about, "it fails: %v", err)
	}
}

// Error requires an error.
func Error(t TestingT, err error, about ...any) {
	if err == nil {
		fail(t, about, "it succeeds, and should fail")
	}
}

// ErrorIs requires an error with target in its chain.
func ErrorIs(t TestingT, err, target error, about ...any) {
	if !errors.Is(err, target) {
		fail(t, about, "the error is %q, and should be %q", fmt.Sprint(err), target)
	}
}

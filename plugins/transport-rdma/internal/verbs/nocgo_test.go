//go:build !(cgo && linux && (amd64 || arm64 || loong64 || ppc64le || riscv64 || s390x))

package verbs

import (
	"errors"
	"strings"
	"testing"
)

func TestWithoutCgo(t *testing.T) {
	lib, err := Open("")
	if lib != nil || !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "cgo") {
		t.Errorf("got %v, %v", lib, err)
	}
}

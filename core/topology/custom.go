package topology

import (
	"fmt"
	"io"
	"os"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/matrix"
)

// ReadMatrix reads the file that MC_CUSTOM_TOPO_JSON names. InvalidParams where it cannot be
// read, DeserializeFail where it is not a matrix.
func ReadMatrix(path string) (matrix.Matrix, error) {
	op := fmt.Sprintf("topology: read the custom matrix %q", path)
	// Asking first keeps a named pipe from blocking.
	if info, err := os.Stat(path); err != nil {
		return matrix.Matrix{}, errs.Wrap(errs.InvalidParams, op, err)
	} else if !info.Mode().IsRegular() {
		return matrix.Matrix{}, errs.New(errs.InvalidParams, op, "it is not a file")
	}
	f, err := os.Open(path)
	if err != nil {
		return matrix.Matrix{}, errs.Wrap(errs.InvalidParams, op, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, matrix.MaxBytes+1))
	if err != nil {
		return matrix.Matrix{}, errs.Wrap(errs.InvalidParams, op, err)
	}
	m, err := matrix.Parse(text)
	return m, errs.Wrap(errs.DeserializeFail, op, err)
}

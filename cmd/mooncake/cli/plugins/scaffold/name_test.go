package scaffold

import (
	"go/types"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestPredeclared compares the table with the compiler's, so that a release of Go with a new name
// fails here.
func TestPredeclared(t *testing.T) {
	assert.ElementsMatch(t, types.Universe.Names(), predeclared)
}

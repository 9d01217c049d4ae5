package rdma

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/x/advice"
)

func TestCheckSaysWhyThereIsNoUse(t *testing.T) {
	err := check(filepath.Join(t.TempDir(), "none.so"))
	says(t, err, advice.NoLibrary())
	require.ErrorContains(t, err, "none.so")
	cfg, _ := fakes(t, 0)
	says(t, check(cfg().Library), advice.NoDevice())
	cfg, _ = fakes(t, 1)
	require.NoError(t, check(cfg().Library))
}

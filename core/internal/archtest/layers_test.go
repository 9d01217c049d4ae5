package archtest

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFilesFormLayers: inside a package the files can be put in an order in which each uses only those below it.
func TestFilesFormLayers(t *testing.T) {
	total, up := 0, 0
	for _, p := range append(list(t, root), list(t, filepath.Join(root, "sdk"))...) {
		files := append(p.GoFiles, p.CgoFiles...)
		u, err := fileUses(p.Dir, files)
		require.NoError(t, err)
		_, upward := u.layers()
		total += u.edges()
		up += len(upward)
		rel := strings.TrimPrefix(p.ImportPath, module)
		if len(upward) > 0 {
			t.Logf("%s: %d of %d uses run upward: %v", rel, len(upward), u.edges(), upward)
		}
	}
	t.Logf("%d of %d uses run upward", up, total)
}

package archtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFilesFormLayers: inside a package the files can be put in an order in which each uses only those
// below it, but for maxUpward uses. With -v the test names them.
func TestFilesFormLayers(t *testing.T) {
	all, up := 0, 0
	for _, p := range append(list(t, root), list(t, filepath.Join(root, "sdk"))...) {
		u, err := fileUses(p.Dir, append(p.GoFiles, p.CgoFiles...))
		require.NoError(t, err)
		_, upward := u.layers()
		all += u.edges()
		up += len(upward)
		if len(upward) > 0 {
			t.Logf("%s: %d of %d uses run upward: %v", strings.TrimPrefix(p.ImportPath, module), len(upward), u.edges(), upward)
		}
	}
	t.Logf("%d of %d uses run upward", up, all)
	if up > maxUpward {
		t.Errorf("%d uses between files of a package run upward, at most %d may; go test -run FilesFormLayers -v names them", up, maxUpward)
	}
}

// TestPackagesStaySmall: a package with more files has a second subject, which belongs in a folder of
// its own.
func TestPackagesStaySmall(t *testing.T) {
	for _, p := range append(list(t, root), list(t, filepath.Join(root, "sdk"))...) {
		if n := len(p.GoFiles) + len(p.CgoFiles); n > maxFiles && !strings.Contains(p.ImportPath, "/sdk/proto/") {
			t.Errorf("%s has %d files, at most %d may be in a package", strings.TrimPrefix(p.ImportPath, module), n, maxFiles)
		}
	}
}

// TestLayersOfFiles: the order of files shows a use that runs upward, and only then.
func TestLayersOfFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("package p\n"+text), 0o600))
	}
	write("low.go", "type low struct{}\nfunc (low) top() {}\n")
	write("middle.go", "func middle() low { top := 1; _ = top; return low{} }\n")
	write("top.go", "func top() { middle() }\n")
	files := []string{"top.go", "low.go", "middle.go"}
	u, err := fileUses(dir, files)
	require.NoError(t, err)
	order, upward := u.layers()
	require.Equal(t, []string{"low.go", "middle.go", "top.go"}, order)
	require.Empty(t, upward)
	require.Equal(t, 2, u.edges())
	write("low.go", "type low struct{}\nfunc high() { top() }\n")
	u, err = fileUses(dir, files)
	require.NoError(t, err)
	_, upward = u.layers()
	require.Len(t, upward, 1)
}

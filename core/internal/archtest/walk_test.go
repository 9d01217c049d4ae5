package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// walk parses every file of core that is no test. Their names begin at the top of the repository, with slashes.
func walk(t *testing.T, visit func(file string, f *ast.File)) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(filepath.Join(root, "core"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err == nil {
			visit(filepath.ToSlash(file), f)
		}
		return err
	}))
}

package examples

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestDocumentationShowsTheExamples compares the code in docs/plugins/writing.md, to the letter,
// with that of the examples and of `mooncake plugins new`.
func TestDocumentationShowsTheExamples(t *testing.T) {
	var code []string
	for _, root := range []string{"../../examples", "../../cmd/mooncake/cli/plugins/scaffold/templates"} {
		require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !slices.Contains([]string{".go", ".json", ".tmpl"}, filepath.Ext(path)) {
				return err
			}
			text, err := os.ReadFile(path)
			code = append(code, string(text))
			return err
		}))
	}
	page, err := os.ReadFile("../../docs/plugins/writing.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?ms)^```(?:go|json)\n(.*?)^```$").FindAllStringSubmatch(string(page), -1)
	assert.Greater(t, len(blocks), 5)
	for _, b := range blocks {
		assert.True(t, slices.ContainsFunc(code, func(text string) bool { return strings.Contains(text, b[1]) }), "no example has\n%s", b[1])
	}
}

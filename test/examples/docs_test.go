package examples

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/transport/transporttest"
	"github.com/mooncake-go/mooncake/sdk/transport/transporttest/reference"
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

// TestTheTableOfCapabilities compares the table in docs/plugins/writing.md with the constants of sdk/transport, the checks of the suite
// and the manifests.
func TestTheTableOfCapabilities(t *testing.T) {
	have := map[string][]string{} // capability to transports
	for _, dir := range []string{"../../plugins", "../../examples"} {
		manifests, err := filepath.Glob(dir + "/transport-*/manifest.json")
		require.NoError(t, err)
		require.NotEmpty(t, manifests)
		for _, path := range manifests {
			var m struct {
				Name         string
				Capabilities []string
			}
			require.NoError(t, json.Unmarshal([]byte(read(t, path)), &m))
			if dir == "../../examples" {
				m.Name += " (example)"
			}
			for _, c := range m.Capabilities {
				have[c] = append(have[c], m.Name)
			}
		}
	}
	checks := map[string]bool{}
	for _, c := range transporttest.Suite(reference.NewNetwork().Factory()).Cases {
		checks[c.Name] = true
	}
	_, text, found := strings.Cut(read(t, "../../docs/plugins/writing.md"), "### Capabilities\n")
	require.True(t, found)
	text, _, _ = strings.Cut(text, "\n### ")
	var rows []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| (.+) \\| (.+) \\| (.+) \\| (.+) \\|$").FindAllStringSubmatch(text, -1) {
		rows = append(rows, row[1])
		named, _, _ := strings.Cut(row[4], "; ") // Behind it is what other tests check.
		for name := range strings.SplitSeq(named, ", ") {
			assert.True(t, checks[name] || strings.HasPrefix(name, "none:"), "%s: the suite has no check %q", row[1], name)
		}
		who := "none"
		if len(have[row[1]]) > 0 {
			who = strings.Join(have[row[1]], ", ")
		}
		assert.Equal(t, who, row[5], row[1])
	}
	var defined []string
	for _, c := range regexp.MustCompile(`(?m)^\tCap\w+ +plugin\.Capability = "([a-z-]+)"`).FindAllStringSubmatch(read(t, "../../sdk/transport/transport.go"), -1) {
		defined = append(defined, c[1])
	}
	assert.Equal(t, defined, rows)
}

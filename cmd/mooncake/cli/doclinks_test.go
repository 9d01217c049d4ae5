package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLinksOfTheDocumentation: every relative link of a Markdown file leads to a file that
// is there, and to a heading of it where it names one.
func TestLinksOfTheDocumentation(t *testing.T) {
	const root = "../../.."
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	found := 0
	for _, pattern := range []string{
		"*.md", "docs/*.md", "docs/*/*.md", "plugins/*/README.md", "examples/*/README.md", "deploy/*.md", "sdk/python/*.md",
	} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		require.NotEmpty(t, files, pattern)
		for _, file := range files {
			for _, m := range link.FindAllStringSubmatch(prose(t, file), -1) {
				if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
					continue
				}
				found++
				path, heading, _ := strings.Cut(m[1], "#")
				target := file
				if path != "" {
					target = filepath.Join(filepath.Dir(file), path)
				}
				if _, err := os.Stat(target); !assert.NoError(t, err, "%s links to %s", file, m[1]) || heading == "" {
					continue
				}
				assert.Contains(t, headings(prose(t, target)), heading, "%s links to %s", file, m[1])
			}
		}
	}
	assert.Greater(t, found, 50, "the links are looked for where they are")
}

// prose is a Markdown file without its blocks and spans of code.
func prose(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	text := regexp.MustCompile("(?ms)^```.*?^```$").ReplaceAllString(string(data), "")
	return regexp.MustCompile("`[^`\n]*\\]\\([^`\n]*`").ReplaceAllString(text, "")
}

// headings lists the names by which the headings of a text are linked to.
func headings(text string) []string {
	var out []string
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(text, -1) {
		name := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(m[1], "$1")
		name = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(name), "")
		out = append(out, strings.ReplaceAll(strings.TrimSpace(name), " ", "-"))
	}
	return out
}

func TestHeadings(t *testing.T) {
	assert.Equal(t, []string{"what-a-plugins-process-gets", "1-the-file", "in-code-and-a-link"},
		headings("# What a plugin's process gets\ntext # no\n## 1. The file\n### In `code` and [a link](x.md)\n"))
}

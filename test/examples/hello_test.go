package examples

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// hello is a plugin that a page shows from its first file to its last.
type hello struct {
	id plugin.ID
	// page is the file in docs/plugins, from the heading on that is given.
	page, from string
	files      int
	// checks are those of the suite that take little time, and settings what they need.
	checks, settings string
}

var hellos = []hello{
	{plugin.ID{Kind: plugin.KindEvict, Name: "fifo"}, "writing.md", "## A policy from zero", 5, "^(start and stop|manifest|configuration|propose|hostile)$", "expected_objects=10"},
	{plugin.ID{Kind: plugin.KindAlloc, Name: "hello"}, "hello-alloc.md", "# ", 4, "^(start and stop|manifest|configuration|alloc|free|reserve)$", ""},
	{plugin.ID{Kind: plugin.KindTransport, Name: "hello"}, "hello-transport.md", "# ", 7, "^(start and stop|manifest|settings|content at many sizes|dial refuses|import refuses)$", ""},
	{plugin.ID{Kind: plugin.KindTier, Name: "hello"}, "hello-tier.md", "# ", 6, "^(start and stop|manifest|configuration|content at many sizes|submit refuses|scan)$", "capacity_bytes=33554432"},
}

// TestPluginsFromZero does what the pages say: it makes the module outside of the repository, with the files of the page, builds it,
// and runs checks of the suite on the program.
func TestPluginsFromZero(t *testing.T) {
	sdk, err := filepath.Abs("../../sdk")
	require.NoError(t, err)
	for _, h := range hellos {
		t.Run(h.id.String(), func(t *testing.T) {
			text := section(t, h.page, h.from)
			dir := t.TempDir()
			setup := strings.ReplaceAll(regexp.MustCompile("(?ms)^```sh\n(mkdir .*?)^```$").FindStringSubmatch(text)[1], "/path/to/mooncake/sdk", sdk)
			module := strings.TrimSpace(command(t, dir, "bash", "-euc", setup+"\npwd"))
			shown := files(text)
			require.Len(t, shown, h.files)
			for name, code := range shown {
				require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(module, name)), 0o755))
				require.NoError(t, os.WriteFile(filepath.Join(module, name), []byte(code), 0o600))
			}
			assert.Empty(t, command(t, module, "gofmt", "-l", "."))
			command(t, module, "go", "mod", "tidy")
			command(t, module, "go", "vet", "./...")
			build := regexp.MustCompile(`(?m)^CGO_ENABLED=0 go build .*$`).FindString(text)
			command(t, module, "bash", "-euc", build)
			listed(t, filepath.Join(module, "bin"), h.id)
			args := []string{"plugins", "conformance", filepath.Join(module, "bin", h.id.BinaryName()), "--run", h.checks}
			if h.settings != "" {
				args = append(args, "--config", h.settings)
			}
			assert.Contains(t, string(mooncake(t, args...)), fmt.Sprintf(": %d passed, 0 failed, 0 skipped", strings.Count(h.checks, "|")+1))
		})
	}
}

// section returns a part of a page of docs/plugins, up to the next heading of the same level.
func section(t *testing.T, page, from string) string {
	text := "\n" + read(t, "../../docs/plugins", page)
	_, text, found := strings.Cut(text, "\n"+from)
	require.True(t, found, "%s has no heading %q", page, from)
	level, _, _ := strings.Cut(from, " ")
	text, _, _ = strings.Cut(text, "\n"+level+" ")
	return text
}

// files returns the files that a page shows: each is a block whose paragraph before begins with the name in backquotes.
func files(text string) map[string]string {
	out := map[string]string{}
	for _, m := range regexp.MustCompile("(?ms)^`([a-zA-Z0-9_./-]+)`[^`]*?(?:`[^`\n]*`[^`]*?)*\n\n```(?:go|json)\n(.*?)^```$").FindAllStringSubmatch(text, -1) {
		out[m[1]] = m[2]
	}
	return out
}

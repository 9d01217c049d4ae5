package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/core/config"
)

// TestDocumentedCommandsAreUnderstood: every command of this program that the documentation
// or a help text shows has a verb, flags, arguments and settings that exist. Nothing is run.
func TestDocumentedCommandsAreUnderstood(t *testing.T) {
	found := 0
	for where, text := range documentedText(t) {
		for _, words := range commands(text) {
			if _, alias := aliases()[filepath.Base(words[0])]; alias || filepath.Base(words[0]) == "mooncake" {
				found++
				t.Run(where+": "+strings.Join(words, " "), func(t *testing.T) { understood(t, words) })
			}
		}
	}
	assert.Greater(t, found, 100, "the commands are looked for where they are")
}

func understood(t *testing.T, words []string) {
	e, _, _ := testEnv()
	verb, alias := aliases()[filepath.Base(words[0])]
	root := e.root()
	root.InitDefaultCompletionCmd()
	args := command.Normalize(root, append(strings.Fields(verb), words[1:]...))
	cmd, rest, err := root.Find(args)
	require.NoError(t, err)
	cmd.InitDefaultHelpFlag()
	require.NoError(t, cmd.ParseFlags(rest))
	require.NoError(t, cmd.ValidateArgs(cmd.Flags().Args()))
	require.NoError(t, cmd.ValidateRequiredFlags())
	if command.RoleOf(cmd) == "" || cmd.Flags().Changed("config") {
		return // The settings are in a file that is not here.
	}
	_, err = config.Load(config.Options{
		Role: command.RoleOf(cmd), Flags: cmd.Flags(), PluginDefaults: e.PluginDefaults(), UpstreamDefaults: alias,
	})
	assert.NoError(t, err)
}

// documentedText has the shell blocks of each Markdown file, and the examples of each verb.
func documentedText(t *testing.T) map[string]string {
	texts := map[string]string{}
	block := regexp.MustCompile("(?ms)^```(?:sh|console)\n(.*?)^```$")
	for _, pattern := range []string{"README.md", "docs/*.md", "docs/*/*.md", "plugins/*/README.md", "examples/*/README.md"} {
		files, err := filepath.Glob(filepath.Join("../../..", pattern))
		require.NoError(t, err)
		require.NotEmpty(t, files, pattern)
		for _, file := range files {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, m := range block.FindAllStringSubmatch(string(data), -1) {
				texts[strings.TrimPrefix(file, "../../../")] += m[1] + "\n"
			}
		}
	}
	e, _, _ := testEnv()
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		texts[c.CommandPath()] = c.Example
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(e.root())
	return texts
}

// commands splits shell text into simple commands: continued lines are joined, comments,
// assignments and redirections left out, quotes taken off.
func commands(text string) [][]string {
	token := regexp.MustCompile(`#.*|[|&;<>]+|(?:'[^']*'|"[^"]*"|[^\s'"|&;<>])+`)
	quotes := strings.NewReplacer("'", "", `"`, "")
	var all [][]string
	for _, line := range strings.Split(strings.ReplaceAll(text, "\\\n", " "), "\n") {
		var words []string
		redirected := false
		line = strings.TrimPrefix(strings.TrimSpace(line), "$ ")
		for _, tok := range append(token.FindAllString(line, -1), ";") {
			switch {
			case strings.HasPrefix(tok, "#"):
			case strings.ContainsAny(tok[:1], "<>"):
				redirected = true
			case strings.ContainsAny(tok[:1], "|&;"):
				if len(words) > 0 {
					all = append(all, slices.Clone(words))
				}
				words, redirected = nil, false
			case redirected:
				redirected = false
			case len(words) == 0 && strings.Contains(tok, "="): // the environment of a command
			default:
				words = append(words, quotes.Replace(tok))
			}
		}
	}
	return all
}

func TestCommandsOfShellText(t *testing.T) {
	assert.Equal(t, [][]string{
		{"mooncake", "client", "put", "k", "--value", "a b"}, {"cat", "f"}, {"mooncake", "ls", "^x#", "-o", "json"}, {"./x"},
	}, commands("A=1 B='2 3' mooncake client put k \\\n  --value 'a b' > out # why\n$ cat f | mooncake ls '^x#' -o json && ./x &\n# no"))
}

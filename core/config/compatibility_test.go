package config

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/config/internal/upstream"
)

// docs/compatibility/settings.md says of every name of upstream what becomes
// of it, in the table of its kind: same, better or different where it has an effect, not
// yet or no where it has none, and refused where switching it on is an error.
func TestCompatibilityNamesEverything(t *testing.T) {
	data, err := os.ReadFile("../../docs/compatibility/settings.md")
	require.NoError(t, err)
	keys := newLoader(Options{}).byKey
	names := regexp.MustCompile("`([^`]+)`")
	for _, table := range upstreamTables() {
		_, section, found := strings.Cut(string(data), "\n### "+table.title+"\n")
		require.True(t, found, "no section %q", table.title)
		section, _, _ = strings.Cut(section, "\n#")
		states := map[string]string{}
		for line := range strings.Lines(section) {
			cells := strings.Split(line, "|")
			if len(cells) < 4 {
				continue
			}
			for _, m := range names.FindAllStringSubmatch(cells[1], -1) {
				require.NotContains(t, states, m[1], "%s is there twice", m[1])
				states[m[1]] = strings.TrimSpace(cells[2])
			}
		}
		for _, n := range table.names {
			state, ok := states[n.Name]
			require.True(t, ok, "%s is not in the section %q", n.Name, table.title)
			delete(states, n.Name)
			f := keys[n.Key]
			missing := n.Key == "" && !n.Covered && n.Readers != upstream.Elsewhere && !isFileFlag(n.Name) && n.Name != "MOONCAKE_CONFIG_PATH" || f.soon != ""
			says := strings.HasPrefix(state, "not yet:") || strings.HasPrefix(state, "no:")
			if n.Name == "memory_allocator" { // one of its values has an effect without a key
				says = true
			}
			require.Equal(t, missing, says, "%s (key %q, soon %q): the table says %q", n.Name, n.Key, f.soon, state)
			refused := n.Refuse || n.RefuseOnly != "" || f.soon != "" && f.refuse
			require.True(t, !refused || strings.Contains(state, "refused"), "%s is refused; the table says %q", n.Name, state)
		}
		for flag := range upstream.MasterFileNames() {
			delete(states, flag)
		}
		require.Empty(t, states, "names in the section %q that nothing reads", table.title)
	}
	for _, f := range schema() {
		if f.section == "master" && !isUpstream(f.key) {
			require.True(t, strings.Contains(string(data), "`"+f.key+"`"), "%s only exists here and is not in docs/compatibility/settings.md", f.key)
		}
	}
}

// isUpstream reports whether a name of upstream sets the key.
func isUpstream(key string) bool {
	for _, table := range upstreamTables() {
		for _, n := range table.names {
			if n.Key == key {
				return true
			}
		}
	}
	return false
}

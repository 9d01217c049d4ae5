package metrics

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	inBackticks = regexp.MustCompile("`([^`]+)`")
	inBraces    = regexp.MustCompile(`\{([^{}]*)\}`)
)

// expand writes the words in braces out.
func expand(s string) []string {
	at := inBraces.FindStringSubmatchIndex(s)
	if at == nil {
		return []string{s}
	}
	var out []string
	for _, word := range strings.Split(s[at[2]:at[3]], ",") {
		out = append(out, expand(s[:at[0]]+word+s[at[1]:])...)
	}
	return out
}

// TestCompatibilityTable: the table of docs/compatibility/errors-and-metrics.md has every name once, and
// says "own" of those that upstream does not have.
func TestCompatibilityTable(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/compatibility/errors-and-metrics.md")
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(doc), "\n## Metric names\n")
	require.True(t, ok)
	section, _, _ = strings.Cut(section, "\n## ")
	got := map[bool][]string{}
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 {
			continue
		}
		for _, m := range inBackticks.FindAllStringSubmatch(cells[1], -1) {
			own := strings.HasPrefix(strings.TrimSpace(cells[2]), "own")
			got[own] = append(got[own], expand(m[1])...)
		}
	}
	for own, file := range map[bool]string{false: "testdata/names.txt", true: "testdata/own.txt"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var want []string
		for line := range strings.Lines(string(text)) {
			name, _, _ := strings.Cut(line, " ")
			want = append(want, name)
		}
		slices.Sort(want)
		slices.Sort(got[own])
		require.Equal(t, want, got[own], file)
	}
}

package config

import (
	"strings"

	"github.com/spf13/pflag"
)

// FlagUsages prints the flags that have an effect, grouped, for a help text. Flags that
// RegisterFlags did not add come first.
func FlagUsages(fs *pflag.FlagSet) string {
	var b strings.Builder
	for _, g := range []struct{ group, title string }{
		{"", "Flags"}, {GroupMain, "Configuration"}, {GroupRole, "Settings"}, {GroupLog, "Logging"}, {GroupPlugins, "Plugins"},
		{GroupUpstream, "Upstream's names"},
	} {
		part := pflag.NewFlagSet("", pflag.ContinueOnError)
		part.SortFlags = false
		fs.VisitAll(func(f *pflag.Flag) {
			if FlagGroup(f) == g.group {
				part.AddFlag(f)
			}
		})
		if text := part.FlagUsages(); text != "" {
			b.WriteString(g.title + ":\n" + text + "\n")
		}
	}
	return b.String()
}

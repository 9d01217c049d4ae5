package pluginhost

import (
	"slices"
	"strings"

	"github.com/mooncake-go/mooncake/core/pluginhost/find"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// HomeBuiltin is the home of a plugin that is linked into the program.
const HomeBuiltin = find.HomeBuiltin

// Entry is one plugin as `mooncake plugins list` shows it.
type Entry = find.Entry

// sortEntries orders by kind, name and home; built-ins come first.
func sortEntries(es []Entry) {
	rank := func(e Entry) (int, int) {
		home := 1
		if e.Home == HomeBuiltin {
			home = 0
		}
		return slices.Index(plugin.Kinds(), e.Kind), home
	}
	slices.SortStableFunc(es, func(a, b Entry) int {
		ak, ah := rank(a)
		bk, bh := rank(b)
		switch {
		case ak != bk:
			return ak - bk
		case a.Name != b.Name:
			return strings.Compare(a.Name, b.Name)
		}
		return ah - bh // Binaries stay in search order.
	})
}

package upstream

import (
	"slices"
	"strings"
)

// Find returns the entry for name: the exact one, else the longest with a trailing *
// that covers it.
func Find(table []Name, name string) (Name, bool) {
	best, found := Name{}, false
	for _, n := range table {
		if n.Name == name {
			return n, true
		}
		prefix, wild := strings.CutSuffix(n.Name, "*")
		if wild && strings.HasPrefix(name, prefix) && len(n.Name) > len(best.Name) {
			best, found = n, true
		}
	}
	return best, found
}

// Names returns the spellings of a table, without those that end in *.
func Names(table []Name) []string {
	var out []string
	for _, n := range table {
		if !strings.HasSuffix(n.Name, "*") {
			out = append(out, n.Name)
		}
	}
	return out
}

// Distinct returns the entries of the tables, the first of each name, in order.
func Distinct(tables ...[]Name) []Name {
	all := concat(tables...)
	out := make([]Name, 0, len(all))
	for _, n := range all {
		if !slices.ContainsFunc(out, func(o Name) bool { return o.Name == n.Name }) {
			out = append(out, n)
		}
	}
	return out
}

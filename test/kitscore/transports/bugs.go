package transports

import (
	"cmp"
	"maps"
	"slices"

	"github.com/mooncake-go/mooncake/test/kitscore"
)

// bugs returns all bugs by name.
func bugs() map[string]bug {
	all := map[string]bug{}
	for _, some := range []map[string]bug{moveBugs(), flowBugs(), endBugs(), lifeBugs(), leakBugs(), settingBugs()} {
		maps.Copy(all, some)
	}
	return all
}

// scored returns the bugs as the score lists them.
func scored() []kitscore.Bug {
	var out []kitscore.Bug
	for name, b := range bugs() {
		out = append(out, kitscore.Bug{Name: name, Wrong: b.wrong, Finds: b.finds, Bounded: bounded[name]})
	}
	slices.SortFunc(out, func(a, b kitscore.Bug) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// bounded says of some bugs why they have no effect in a process of its own.
var bounded = map[string]string{
	"no-back-pressure":    "its Submit accepts at most 1024 operations that are not reaped, and the program gets no others",
	"deregister-given-up": "its call to the program does not end with the context of its caller",
}

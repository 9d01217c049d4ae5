package transports

import (
	"cmp"
	"maps"
	"slices"

	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/test/kitscore"
)

// bug is how a transport is broken.
type bug struct {
	wrong string
	finds []string
	race  bool
	bend  func(*bent)
}

// bugs returns all bugs by name.
func bugs() map[string]bug {
	all := map[string]bug{}
	for _, some := range []map[string]bug{moveBugs()} {
		maps.Copy(all, some)
	}
	return all
}

// scored returns the bugs as the score lists them.
func scored() []kitscore.Bug {
	var out []kitscore.Bug
	for name, b := range bugs() {
		out = append(out, kitscore.Bug{Name: name, Wrong: b.wrong, Finds: b.finds, Race: b.race})
	}
	slices.SortFunc(out, func(a, b kitscore.Bug) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// moveBugs are bugs of moving bytes.
func moveBugs() map[string]bug {
	return map[string]bug{
		"short-read": {
			wrong: "a read of 4095 bytes leaves out its last byte", finds: []string{"content at many sizes"},
			bend: submits(func(o *transport.Op) {
				if o.Kind == transport.Read && len(o.Local) == 4095 {
					o.Local = o.Local[:4094]
				}
			}),
		},
	}
}

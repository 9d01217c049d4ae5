// Package placement decides in which segments the copies of an object may go, and how an
// object is cut over several. Where inside a segment is the allocator's business.
//
// A candidate list is an order: a segment of little weight comes late in it. One whose node is
// silent is a candidate only if all nodes are.
package placement

import (
	"fmt"
	"strings"

	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/sdk/alloc"
)

// maxTries bounds the spaces that are tried for one copy.
const maxTries = 100

// Object is what a strategy may know of the object that it places.
type Object struct {
	// Key is its key.
	Key string
	// Host is the writer's host, empty where it is unknown.
	Host string
	// Copies is how many copies are wanted.
	Copies int
}

// Strategy orders the segments for the copies of one object. Implementations have no state
// and are safe for concurrent use.
type Strategy interface {
	// Order returns the spaces to try, best first, at most maxTries. It may append to
	// scratch[:0] and return that, or return memory of the view: the result is read only
	// and valid until the next call with the same scratch.
	Order(v *segments.View, o Object, scratch []alloc.SpaceID) []alloc.SpaceID
}

// Names lists the strategies that New knows.
func Names() []string {
	return []string{"random", "free_ratio_first", "ssd_free_ratio_first", "local_first"}
}

// New returns a strategy by its name.
func New(name string) (Strategy, error) {
	switch name {
	case "random":
		return Random{}, nil
	case "free_ratio_first":
		return FreeRatioFirst{}, nil
	case "ssd_free_ratio_first":
		return FreeRatioFirst{OnTiers: true}, nil
	case "local_first":
		return LocalFirst{}, nil
	default:
		return nil, fmt.Errorf("allocation strategy %q is not one of %s", name, strings.Join(Names(), ", "))
	}
}

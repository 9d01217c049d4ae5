package calls

import (
	"math/bits"
	"strconv"
	"strings"

	"github.com/mooncake-go/mooncake/core/api/upstream/structpack"
)

// Version is a release of upstream's that changed the shapes of calls.
type Version = structpack.Version

// The versions that are served, by the releases that speak them.
const (
	V9  Version = 9  // 0.3.9
	V10 Version = 10 // 0.3.10.post1 and .post2, not 0.3.10
	V11 Version = 11 // 0.3.11 and 0.3.11.post1
	V12 Version = 12 // 0.3.12 and 0.3.12.post1
	V13 Version = 13 // 0.3.13 and 0.3.13.post1

	oldest, newest = V9, V13
	served         = int(newest-oldest) + 1
)

// Versions is a set of versions.
type Versions uint8

// All has every version that is served.
const All Versions = 1<<served - 1

// Only returns the set of one version.
func Only(v Version) Versions { return 1 << (v - oldest) }

// Since returns the set of the versions from v on.
func Since(v Version) Versions { return All &^ (Only(v) - 1) }

// Has reports whether v is in the set.
func (s Versions) Has(v Version) bool { return v >= oldest && v <= newest && s&Only(v) != 0 }

// Newest returns the newest version of the set, 0 if it is empty.
func (s Versions) Newest() Version {
	if s == 0 {
		return 0
	}
	return oldest + Version(bits.Len8(uint8(s))) - 1
}

// String returns the versions as a list: "9,10".
func (s Versions) String() string {
	var list []string
	for v := oldest; v <= newest; v++ {
		if s.Has(v) {
			list = append(list, strconv.Itoa(int(v)))
		}
	}
	return strings.Join(list, ",")
}

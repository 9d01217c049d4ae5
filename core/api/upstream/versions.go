package upstream

import "math/bits"

// Version is a release of upstream's wheel, as far as its clients speak differently.
type Version uint8

// The releases that are served, oldest first: V9 is 0.3.9, V13 is 0.3.13.
const (
	V9 Version = iota
	V10
	V11
	V12
	V13
)

// Versions is a set of versions.
type Versions uint8

// All are the versions that are served.
const All = Versions(1<<V9 | 1<<V10 | 1<<V11 | 1<<V12 | 1<<V13)

// Has reports whether v is one of them.
func (s Versions) Has(v Version) bool { return s&(1<<v) != 0 }

// Newest returns the newest of them. The set is not empty.
func (s Versions) Newest() Version { return Version(bits.Len8(uint8(s)) - 1) }

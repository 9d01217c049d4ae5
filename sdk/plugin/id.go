package plugin

import (
	"fmt"
	"regexp"
	"strings"
)

// The kinds of plugin that exist.
const (
	KindTransport = "transport"
	KindAlloc     = "alloc"
	KindEvict     = "evict"
	KindTier      = "tier"
)

// Kinds lists the kinds in the order they are shown.
func Kinds() []string { return []string{KindTransport, KindAlloc, KindEvict, KindTier} }

// ID names a plugin. Its text form is kind/name, for example transport/rdma.
type ID struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// String returns kind/name.
func (id ID) String() string { return id.Kind + "/" + id.Name }

// BinaryName returns the file name of the plugin's own executable,
// mooncake-plugin-<kind>-<name>.
func (id ID) BinaryName() string { return BinaryPrefix + id.Kind + "-" + id.Name }

// BinaryPrefix starts the file name of every plugin executable.
const BinaryPrefix = "mooncake-plugin-"

var nameRE = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)

// Validate reports whether kind is known and name is lower-case letters, digits and
// single dashes, 1 to 32 bytes.
func (id ID) Validate() error {
	known := false
	for _, k := range Kinds() {
		known = known || k == id.Kind
	}
	if !known {
		return fmt.Errorf("plugin kind %q is not one of %s", id.Kind, strings.Join(Kinds(), ", "))
	}
	if len(id.Name) > 32 || !nameRE.MatchString(id.Name) {
		return fmt.Errorf("plugin name %q must be 1 to 32 lower-case letters, digits and dashes, starting with a letter", id.Name)
	}
	return nil
}

// ParseID parses kind/name.
func ParseID(s string) (ID, error) {
	kind, name, ok := strings.Cut(s, "/")
	if !ok {
		return ID{}, fmt.Errorf("plugin id %q must have the form kind/name, for example evict/lru", s)
	}
	id := ID{Kind: kind, Name: name}
	return id, id.Validate()
}

// ParseBinaryName recovers the ID from a plugin executable's file name. ok is false for
// a file that is not named like a plugin.
func ParseBinaryName(file string) (id ID, ok bool) {
	rest, found := strings.CutPrefix(file, BinaryPrefix)
	if !found {
		return ID{}, false
	}
	kind, name, found := strings.Cut(rest, "-")
	id = ID{Kind: kind, Name: name}
	return id, found && id.Validate() == nil
}

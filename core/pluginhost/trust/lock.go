package trust

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// AnyPlatform is the platform of a script, whose bytes are the same everywhere.
const AnyPlatform = "any"

// Locked is the entry of one plugin and platform in a lock file.
type Locked struct {
	// Version is that of the manifest. It is for people; only SHA256 is compared.
	Version string
	// SHA256 of the program, 64 hexadecimal digits.
	SHA256 string
}

// Lock is the content of a lock file: the programs that may run, by plugin and platform. The zero
// Lock is empty. A Lock is not safe for concurrent use.
type Lock struct {
	plugins map[plugin.ID]map[string]Locked
}

// Bounds of a lock file.
const (
	maxLockBytes   = 1 << 20
	maxLocked      = 1000 // plugins
	maxPlatforms   = 64   // of one plugin
	maxVersionText = 128
)

var (
	platformRE = regexp.MustCompile(`^([a-z][a-z0-9]{0,15}/[a-z][a-z0-9_]{0,15}|` + AnyPlatform + `)$`)
	sha256RE   = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// Find returns the entry of a plugin for a platform, or else the one for any platform.
func (l Lock) Find(id plugin.ID, platform string) (Locked, bool) {
	e, ok := l.plugins[id][platform]
	if !ok {
		e, ok = l.plugins[id][AnyPlatform]
	}
	return e, ok
}

// IDs lists the plugins, by kind and name.
func (l Lock) IDs() []plugin.ID {
	return slices.SortedFunc(maps.Keys(l.plugins), func(a, b plugin.ID) int { return strings.Compare(a.String(), b.String()) })
}

// Platforms lists the platforms of a plugin in sorted order, with the entry of each.
func (l Lock) Platforms(id plugin.ID) ([]string, map[string]Locked) {
	m := maps.Clone(l.plugins[id])
	return slices.Sorted(maps.Keys(m)), m
}

// Set locks a plugin on one platform; the entries of other platforms stay. A script, whose
// platform is AnyPlatform, replaces the entries of all platforms, and a program replaces a
// script. Set fails with InvalidParams for an entry that a lock file cannot hold.
func (l *Lock) Set(id plugin.ID, platform string, e Locked) error {
	if err := checkLocked(id, platform, e); err != nil {
		return errs.Wrap(errs.InvalidParams, "lock "+id.String(), err)
	}
	m := l.plugins[id]
	if m == nil || platform == AnyPlatform {
		m = map[string]Locked{}
	}
	delete(m, AnyPlatform)
	m[platform] = e
	if l.plugins == nil {
		l.plugins = map[plugin.ID]map[string]Locked{}
	}
	l.plugins[id] = m
	if len(m) > maxPlatforms || len(l.plugins) > maxLocked {
		return errs.New(errs.InvalidParams, "lock "+id.String(), "a lock file holds at most %d plugins of %d platforms each", maxLocked, maxPlatforms)
	}
	return nil
}

// Remove removes a plugin on all platforms and reports whether it was locked.
func (l *Lock) Remove(id plugin.ID) bool {
	_, was := l.plugins[id]
	delete(l.plugins, id)
	return was
}

func checkLocked(id plugin.ID, platform string, e Locked) error {
	if err := id.Validate(); err != nil {
		return err
	}
	if !platformRE.MatchString(platform) {
		return fmt.Errorf("platform %q is not of the form linux/amd64", platform)
	}
	if len(e.Version) == 0 || len(e.Version) > maxVersionText || strings.ContainsFunc(e.Version, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) {
		return fmt.Errorf("version %q must be 1 to %d printable characters", e.Version, maxVersionText)
	}
	if !sha256RE.MatchString(e.SHA256) {
		return fmt.Errorf("sha256 %q must be 64 hexadecimal digits in lower case", e.SHA256)
	}
	return nil
}

const lockHead = `# The plugins that may run, with the SHA-256 of their programs on each platform.
# Written by "mooncake plugins lock"; "mooncake plugins verify" compares.
version: 1
`

// Encode returns the content of the file. Equal locks have equal bytes.
func (l Lock) Encode() []byte {
	var b bytes.Buffer
	b.WriteString(lockHead)
	if len(l.plugins) == 0 {
		b.WriteString("plugins: {}\n")
		return b.Bytes()
	}
	b.WriteString("plugins:\n")
	for _, id := range l.IDs() {
		fmt.Fprintf(&b, "  %s:\n", id)
		platforms, entries := l.Platforms(id)
		for _, p := range platforms {
			fmt.Fprintf(&b, "    %s: {version: %s, sha256: %q}\n", p, strconv.Quote(entries[p].Version), entries[p].SHA256)
		}
	}
	return b.Bytes()
}

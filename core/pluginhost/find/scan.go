package find

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mooncake-go/mooncake/sdk/plugin"
)

const (
	// maxBinary bounds the part of a file that is searched for a manifest, in bytes.
	maxBinary = 512 << 20
	// scanWindow is how much of a file is in memory at a time. scanOverlap is how much
	// consecutive windows share: the size of the largest manifest.
	scanWindow  = 4 << 20
	scanOverlap = 256 << 10
	// maxDamaged bounds the windows with data that only looks like a manifest.
	maxDamaged = 8
	// maxLinked bounds the plugins that may be linked into one program.
	maxLinked = 64
)

// scanManifest searches a file for the manifest of the plugin want, window by window. Other plugins may be linked into the program.
// With the zero want, the file must have a manifest of one plugin only.
func scanManifest(r io.Reader, want plugin.ID) (plugin.Manifest, error) {
	buf := make([]byte, 0, scanWindow)
	r = io.LimitReader(r, maxBinary)
	damaged := 0
	none := plugin.ErrNoManifest
	var all linked
	for {
		n, err := io.ReadFull(r, buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		end := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !end {
			return plugin.Manifest{}, fmt.Errorf("cannot read it: %w", err)
		}
		err = plugin.ScanManifests(buf, func(m plugin.Manifest) bool { return all.add(m) && m.ID != want })
		if err != nil && !errors.Is(err, plugin.ErrNoManifest) {
			none = err
			damaged++
		}
		if m, ok := all.of(want); ok || end || damaged == maxDamaged || len(all) == maxLinked {
			if len(all) == 0 {
				return m, none
			}
			return all.choose(want)
		}
		kept := copy(buf, buf[len(buf)-scanOverlap:])
		buf = buf[:kept]
	}
}

// linked are the manifests in a program, one for each plugin.
type linked []plugin.Manifest

// add adds the manifest of a plugin that is not there yet. It reports whether there is room for more.
func (l *linked) add(m plugin.Manifest) bool {
	if _, there := l.of(m.ID); !there {
		*l = append(*l, m)
	}
	return len(*l) < maxLinked
}

func (l linked) of(id plugin.ID) (plugin.Manifest, bool) {
	i := slices.IndexFunc(l, func(m plugin.Manifest) bool { return m.ID == id })
	if i < 0 {
		return plugin.Manifest{}, false
	}
	return l[i], true
}

// choose returns the manifest of want, or the only one.
func (l linked) choose(want plugin.ID) (plugin.Manifest, error) {
	m, ok := l.of(want)
	switch {
	case ok:
		return m, nil
	case want == plugin.ID{} && len(l) == 1:
		return l[0], nil
	}
	names := make([]string, len(l))
	for i, m := range l {
		names[i] = m.ID.String()
	}
	switch all := strings.Join(names, ", "); {
	case want == plugin.ID{}:
		return m, fmt.Errorf("the plugins %s are linked into it; name the file after the one that you mean, such as %s", all, l[0].BinaryName())
	case len(l) == 1:
		return m, fmt.Errorf("the file is named after %s, but its manifest says %s", want, all)
	default:
		return m, fmt.Errorf("the file is named after %s, but its manifests say %s", want, all)
	}
}

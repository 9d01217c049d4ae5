package find

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/mooncake-go/mooncake/core/pluginhost/trust"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// Options say where programs are looked for, and which of them may run.
type Options struct {
	// Dirs are absolute paths of folders, searched in this order. One that does not exist
	// holds nothing.
	Dirs []string
	// Lock is the absolute path of the lock file, empty for none.
	Lock string
	// Trust says which programs may run; trust.ModeAuto where it is empty.
	Trust trust.Mode
}

// Finder finds the programs of plugins. It keeps nothing: each call looks at the folders and
// the lock file as they are. Safe for concurrent use.
type Finder struct{ opts Options }

// New checks the options; it looks at no folder yet. InvalidParams for a folder or a lock
// file that is not absolute, and for a trust that needs a lock file without one.
func New(o Options) (*Finder, error) {
	for _, d := range o.Dirs {
		if !filepath.IsAbs(d) {
			return nil, errs.New(errs.InvalidParams, "plugins", "the plugin folder %q must be an absolute path, so that what is run does not depend on the working directory", d)
		}
	}
	switch o.Trust {
	case "", trust.ModeAuto, trust.ModeOff:
	case trust.ModeLocked, trust.ModeTOFU:
		if o.Lock == "" {
			return nil, errs.New(errs.InvalidParams, "plugins", "trust %s needs a lock file", o.Trust)
		}
	default:
		return nil, errs.New(errs.InvalidParams, "plugins", "trust %q is not auto, locked, tofu or off", o.Trust)
	}
	if o.Lock != "" && !filepath.IsAbs(o.Lock) {
		return nil, errs.New(errs.InvalidParams, "plugins", "the lock file %q must be an absolute path, so that what is trusted does not depend on the working directory", o.Lock)
	}
	o.Dirs = slices.Clone(o.Dirs)
	return &Finder{o}, nil
}

// Find lists what the folders hold, in their order; only the files of one plugin where
// only is not zero. Nothing is run.
func (f *Finder) Find(only plugin.ID) []Entry {
	var out []Entry
	found := map[plugin.ID]string{}
	judge := f.judge()
	for _, dir := range f.opts.Dirs {
		names, err := pluginFiles(dir)
		if err != nil {
			out = append(out, refused(plugin.ID{}, dir, err))
		}
		for _, name := range names {
			if only != (plugin.ID{}) && name != only.BinaryName() {
				continue
			}
			e := look(filepath.Join(dir, name), judge)
			if first, twice := found[e.ID()]; twice && e.Usable() {
				e.State, e.Reason = plugin.StateFailed, fmt.Sprintf("not used: %s comes first", first)
			}
			if e.Usable() {
				found[e.ID()] = e.Home
			}
			out = append(out, e)
		}
	}
	return out
}

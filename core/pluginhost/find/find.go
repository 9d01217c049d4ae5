package find

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/mooncake-go/mooncake/core/pluginhost/trust"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// Options say which folders are searched, and which programs may run.
type Options struct {
	// Dirs are absolute paths of folders, searched in this order. A folder that does not exist
	// counts as empty.
	Dirs []string
	// Rules say which programs may run.
	trust.Rules
}

// Finder finds the programs of plugins. It has no state: each call reads the folders and the lock
// file. It is safe for concurrent use.
type Finder struct{ opts Options }

// New checks the options. It does not read any folder yet. It fails with InvalidParams for a
// folder whose path is not absolute, and for what trust.Rules.Check refuses.
func New(o Options) (*Finder, error) {
	for _, d := range o.Dirs {
		if !filepath.IsAbs(d) {
			return nil, errs.New(errs.InvalidParams, "plugins", "the plugin folder %q must be an absolute path, so that what is run does not depend on the working directory", d)
		}
	}
	if err := o.Check(); err != nil {
		return nil, err
	}
	o.Dirs = slices.Clone(o.Dirs)
	return &Finder{o}, nil
}

// Find lists the plugins in the folders, in the order of the folders. If only is not zero, it
// lists the files of that plugin only. It runs nothing. The first file of a plugin is the plugin,
// even if it is refused: an attacker or a mistake that makes one copy unusable must not decide that
// another one runs.
func (f *Finder) Find(only plugin.ID) []Entry {
	var out []Entry
	found := map[plugin.ID]Entry{}
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
			switch first, twice := found[e.ID()]; {
			case !twice:
				found[e.ID()] = e
			case !e.Usable(): // Its own reason says more.
			case first.Usable():
				e.State, e.Reason = plugin.StateFailed, fmt.Sprintf("not used: %s comes first", first.Home)
			default:
				e.State, e.Reason = plugin.StateFailed, fmt.Sprintf("not used: %s comes first, and was refused; correct or remove that file", first.Home)
			}
			out = append(out, e)
		}
	}
	return out
}

package pluginhost

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/pluginhost/find"
	"github.com/mooncake-go/mooncake/core/pluginhost/launch/sandbox"
	"github.com/mooncake-go/mooncake/core/pluginhost/trust"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// Options say where plugins are looked for.
type Options struct {
	// Dirs are absolute paths of folders, searched in this order. A folder that does not exist
	// counts as empty.
	Dirs []string
	// Rules say which programs may run.
	trust.Rules
	// Sandbox says whether rights are taken from plugin processes; the zero value takes none.
	Sandbox sandbox.Mode
	// Env names further variables of this process that plugin processes get, besides the few
	// that all of them get.
	Env []string
	// Logger records events of the catalog and, with the plugin's name, of the processes; nil
	// discards.
	Logger *slog.Logger
}

// Catalog is the one place that knows where plugins live. Safe for concurrent use.
type Catalog struct {
	builtins []plugin.Factory
	opts     Options
	finder   *find.Finder

	mu     sync.Mutex
	closed bool
	open   []opened // in the order of opening
}

// opened is a plugin that the catalog must stop in Close.
type opened interface {
	plugin.Component
	instance() Instance
}

// New makes a catalog of built-in plugins and of folders. It does not read any folder yet. It
// fails with InvalidParams for two built-ins of one name, for a folder whose path is not absolute,
// and for what trust.Rules.Check refuses.
func New(builtins []plugin.Factory, o Options) (*Catalog, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	seen := map[plugin.ID]bool{}
	for _, f := range builtins {
		if id := f.Manifest().ID; seen[id] {
			return nil, errs.New(errs.InvalidParams, "plugins", "two built-in plugins are called %s", id)
		}
		seen[f.Manifest().ID] = true
	}
	finder, err := find.New(find.Options{Dirs: o.Dirs, Rules: o.Rules})
	if err != nil {
		return nil, err
	}
	return &Catalog{builtins: slices.Clone(builtins), opts: o, finder: finder}, nil
}

// List returns every plugin that is linked in or found, by kind and name, including refused and
// damaged ones. It runs nothing. A plugin in use has the state of its instance.
func (c *Catalog) List() []Entry {
	out := c.known()
	for _, in := range c.Instances() {
		for i := range out {
			if out[i].Home == in.Home && out[i].ID() == in.ID() {
				out[i].State, out[i].Reason = in.State, in.Reason
			}
		}
	}
	sortEntries(out)
	return out
}

func (c *Catalog) known() []Entry {
	var out []Entry
	for _, f := range c.builtins {
		e := find.EntryOf(f.Manifest(), HomeBuiltin)
		if err := f.Check(); err != nil {
			e.State, e.Reason = plugin.StateUnavailable, err.Error()
		}
		out = append(out, e)
	}
	return append(out, c.finder.Find(plugin.ID{})...)
}

// Instances returns the plugins that were opened and are not stopped yet, oldest first.
func (c *Catalog) Instances() []Instance {
	c.mu.Lock()
	open := slices.Clone(c.open)
	c.mu.Unlock()
	out := make([]Instance, len(open))
	for i, o := range open {
		out[i] = o.instance()
	}
	return out
}

// Close stops everything that is open, newest first, and refuses to open more.
func (c *Catalog) Close(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	open := slices.Clone(c.open)
	c.mu.Unlock()
	var failed []error
	for _, o := range slices.Backward(open) {
		failed = append(failed, o.Stop(ctx))
	}
	return errors.Join(failed...)
}

func (c *Catalog) add(o opened) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errs.New(errs.UnavailableInCurrentStatus, "", "the program is shutting down")
	}
	c.open = append(c.open, o)
	return nil
}

func (c *Catalog) remove(o opened) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = slices.DeleteFunc(c.open, func(x opened) bool { return x == o })
}

// home is where a plugin runs: exactly one of the two fields is set.
type home struct {
	factory plugin.Factory
	entry   Entry
}

// resolve finds the home of a plugin.
func (c *Catalog) resolve(id plugin.ID, mode Mode) (home, error) {
	if err := id.Validate(); err != nil {
		return home{}, errs.Wrap(errs.InvalidParams, "", err)
	}
	switch mode {
	case "", ModeAuto, ModeInProcess, ModeSubprocess:
	default:
		return home{}, errs.New(errs.InvalidParams, "", "mode %q is not auto, inprocess or subprocess", mode)
	}
	if mode != ModeSubprocess {
		for _, f := range c.builtins {
			if f.Manifest().ID == id {
				return home{factory: f}, nil
			}
		}
	}
	if mode == ModeInProcess {
		return home{}, errs.New(errs.NotSupported, "", "it is not linked into this program, and mode inprocess allows nothing else; built in are: %s", c.names(id.Kind))
	}
	return c.installed(id)
}

// installed finds a plugin in the folders. The first file that is named after it decides: if that was refused, no other is used.
func (c *Catalog) installed(id plugin.ID) (home, error) {
	var why []string
	for _, e := range c.finder.Find(id) {
		switch {
		case e.ID() != id:
		case e.Usable():
			return home{entry: e}, nil
		case len(why) == 0:
			why = append(why, e.Home+" was refused: "+e.Reason)
		default:
			why = append(why, e.Home+" is not used in its place")
		}
	}
	if len(why) > 0 {
		return home{}, errs.New(errs.FileOpenFail, "", "%s", strings.Join(why, "; "))
	}
	var near string
	if other := config.Nearest(id.Name, c.namesOf(id.Kind)); other != "" && other != id.Name {
		near = fmt.Sprintf("; did you mean %q?", other)
	}
	dirs := "no folder is searched"
	if len(c.opts.Dirs) > 0 {
		dirs = fmt.Sprintf("no file %s in %s", id.BinaryName(), strings.Join(c.opts.Dirs, ", "))
	}
	return home{}, errs.New(errs.FileNotFound, "", "there is no %s %q%s (built in are %s; %s)", id.Kind, id.Name, near, c.names(id.Kind), dirs)
}

// namesOf lists the names of the plugins of a kind, built in and installed.
func (c *Catalog) namesOf(kind string) []string {
	var out []string
	for _, e := range c.known() {
		if e.Kind == kind && !slices.Contains(out, e.Name) {
			out = append(out, e.Name)
		}
	}
	return out
}

// names lists the built-in plugins of a kind for an error message.
func (c *Catalog) names(kind string) string {
	var out []string
	for _, f := range c.builtins {
		if f.Manifest().Kind == kind {
			out = append(out, f.Manifest().Name)
		}
	}
	if len(out) == 0 {
		return "none of kind " + kind
	}
	return strings.Join(out, ", ")
}

package plugins

import (
	"slices"
	"strings"

	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// HomeBuiltin is the home of a plugin that is linked into the program.
const HomeBuiltin = "built-in"

// Entry is one plugin as `mooncake plugins list` shows it.
type Entry struct {
	Kind    string `json:"kind" yaml:"kind"`
	Name    string `json:"name" yaml:"name"`
	Version string `json:"version" yaml:"version"`
	// API lists the contract versions that it speaks, never nil.
	API []uint `json:"api" yaml:"api"`
	// Home is HomeBuiltin or the path of the binary.
	Home  string       `json:"home" yaml:"home"`
	State plugin.State `json:"state" yaml:"state"`
	// Summary is one sentence by the author.
	Summary string `json:"summary" yaml:"summary"`
	// Reason explains a state that is not available or ok.
	Reason string `json:"reason,omitempty" yaml:"reason,omitempty"`

	manifest plugin.Manifest
	real     string // the path with symlinks resolved, for a binary
}

// ID returns the plugin's kind and name.
func (e Entry) ID() plugin.ID { return plugin.ID{Kind: e.Kind, Name: e.Name} }

func (e Entry) usable() bool { return e.State != plugin.StateFailed }

func entryOf(m plugin.Manifest, home string) Entry {
	return Entry{
		Kind: m.Kind, Name: m.Name, Version: m.Version, API: append([]uint{}, m.API...), Home: home,
		State: plugin.StateAvailable, Summary: m.Summary, manifest: m,
	}
}

func refused(id plugin.ID, path string, why error) Entry {
	return Entry{Kind: id.Kind, Name: id.Name, API: []uint{}, Home: path, State: plugin.StateFailed, Reason: why.Error()}
}

// sortEntries orders by kind, name and home; built-ins come first.
func sortEntries(es []Entry) {
	rank := func(e Entry) (int, int) {
		home := 1
		if e.Home == HomeBuiltin {
			home = 0
		}
		return slices.Index(plugin.Kinds(), e.Kind), home
	}
	slices.SortStableFunc(es, func(a, b Entry) int {
		ak, ah := rank(a)
		bk, bh := rank(b)
		switch {
		case ak != bk:
			return ak - bk
		case a.Name != b.Name:
			return strings.Compare(a.Name, b.Name)
		}
		return ah - bh // Binaries stay in the order in which they are searched.
	})
}

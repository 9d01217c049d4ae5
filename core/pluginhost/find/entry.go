package find

import (
	"github.com/mooncake-go/mooncake/core/pluginhost/trust"
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
	// SHA256 is the checksum of the program, empty for one that is linked in or cannot be
	// read.
	SHA256 string `json:"sha256,omitempty" yaml:"sha256,omitempty"`
	// Trust says how the program compares with the lock file. It is empty if the program cannot
	// be read.
	Trust trust.Verdict `json:"trust,omitempty" yaml:"trust,omitempty"`
	// SignedBy is the ID of the trusted key that signed the lock file which lists the program, empty
	// where no signature is demanded.
	SignedBy string `json:"signed_by,omitempty" yaml:"signed_by,omitempty"`

	manifest plugin.Manifest
}

// ID returns the plugin's kind and name.
func (e Entry) ID() plugin.ID { return plugin.ID{Kind: e.Kind, Name: e.Name} }

// Usable reports whether the plugin may be opened: it was not refused.
func (e Entry) Usable() bool { return e.State != plugin.StateFailed }

// Manifest returns the plugin's manifest, empty if it cannot be read.
func (e Entry) Manifest() plugin.Manifest { return e.manifest }

// EntryOf makes the entry of a plugin that is available at a home.
func EntryOf(m plugin.Manifest, home string) Entry {
	verdict := ""
	if home == HomeBuiltin {
		verdict = trust.BuiltIn
	}
	return Entry{
		Kind: m.Kind, Name: m.Name, Version: m.Version, API: append([]uint{}, m.API...), Home: home,
		State: plugin.StateAvailable, Summary: m.Summary, Trust: verdict, manifest: m,
	}
}

func refused(id plugin.ID, path string, why error) Entry {
	return Entry{Kind: id.Kind, Name: id.Name, API: []uint{}, Home: path, State: plugin.StateFailed, Reason: why.Error()}
}

package plugin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Stability is the author's promise about a plugin.
type Stability string

// The promises, weakest first.
const (
	Experimental Stability = "experimental"
	Beta         Stability = "beta"
	Stable       Stability = "stable"
)

// Capability names an optional power of a plugin. Each kind defines its own.
type Capability string

// Manifest is everything `mooncake plugins list` shows of a plugin, readable without
// running it.
//
// A plugin keeps its manifest as a JSON file that it embeds in the program as a string
// and parses with MustParseManifest. A host reads the same bytes out of the executable
// file with ScanManifest, so the two cannot disagree.
type Manifest struct {
	// Format is the version of this layout. It is the first key of the file, because
	// ScanManifest looks for it; always 1.
	Format int `json:"mooncake_plugin_manifest"`
	ID
	// Version is the plugin's own version, semantic versioning without a leading v.
	Version string `json:"version"`
	// API lists the contract versions of the kind that the plugin implements. Host and
	// plugin use the highest they share.
	API []uint `json:"api"`
	// Summary is one sentence of at most 120 bytes.
	Summary string `json:"summary"`
	// Stability is experimental, beta or stable.
	Stability Stability `json:"stability"`
	// Capabilities lists the optional powers, empty where there are none.
	Capabilities []Capability `json:"capabilities,omitempty"`
	// ConfigSchema is a JSON Schema (draft 2020-12) of the plugin's configuration, empty
	// where it has none.
	ConfigSchema json.RawMessage `json:"config_schema,omitempty"`

	// wrong is why the file of the manifest cannot be read: see MustParseManifest.
	wrong error
}

// manifestFormat is the only layout there is so far.
const manifestFormat = 1

// manifestMark is how the embedded file starts. It is put together at run time so that
// this package does not itself contain the bytes that ScanManifest looks for.
func manifestMark() []byte { return append([]byte(`{"mooncake_`), `plugin_manifest":`...) }

// Has reports whether the manifest lists the capability.
func (m Manifest) Has(c Capability) bool { return slices.Contains(m.Capabilities, c) }

// Validate reports the first thing that is missing or malformed.
func (m Manifest) Validate() error {
	if m.wrong != nil {
		return m.wrong
	}
	if m.Format != manifestFormat {
		return fmt.Errorf("manifest format %d is not supported (this host reads format %d)", m.Format, manifestFormat)
	}
	if err := m.ID.Validate(); err != nil {
		return err
	}
	switch {
	case m.Version == "":
		return fmt.Errorf("%s: manifest has no version", m.ID)
	case len(m.API) == 0:
		return fmt.Errorf("%s: manifest lists no contract version (api)", m.ID)
	case m.Summary == "" || len(m.Summary) > 120:
		return fmt.Errorf("%s: manifest summary must be 1 to 120 bytes", m.ID)
	case m.Stability == "":
		return fmt.Errorf("%s: manifest has no stability; it must be experimental, beta or stable", m.ID)
	case m.Stability != Experimental && m.Stability != Beta && m.Stability != Stable:
		return fmt.Errorf("%s: manifest stability %q is not experimental, beta or stable", m.ID, m.Stability)
	case len(m.ConfigSchema) > 0 && !json.Valid(m.ConfigSchema):
		return fmt.Errorf("%s: manifest config_schema is not JSON", m.ID)
	}
	return nil
}

// NegotiateAPI returns the highest contract version that is in both lists.
func NegotiateAPI(host, plugin []uint) (uint, error) {
	best, ok := uint(0), false
	for _, v := range host {
		if slices.Contains(plugin, v) && (!ok || v > best) {
			best, ok = v, true
		}
	}
	if !ok {
		return 0, fmt.Errorf("no common contract version: this host speaks %v, the plugin %v; install a plugin built for this host, or the other way round", host, plugin)
	}
	return best, nil
}

// ParseManifest decodes and validates a manifest file. Unknown keys are refused.
func ParseManifest(text string) (Manifest, error) {
	dec := json.NewDecoder(bytes.NewReader([]byte(text)))
	dec.DisallowUnknownFields()
	var m Manifest
	if err := dec.Decode(&m); err != nil {
		return Manifest{}, fmt.Errorf("plugin manifest: %w", err)
	}
	return m, m.Validate()
}

// MustParseManifest is ParseManifest for the file that a plugin embeds. A file that its author got
// wrong gives a manifest whose Validate returns the error. A factory that is defined with it makes no
// plugin, and its program says why.
func MustParseManifest(text string) Manifest {
	m, err := ParseManifest(text)
	if err != nil {
		m.wrong = err
	}
	return m
}

// ErrNoManifest says that a program carries no manifest.
var ErrNoManifest = errors.New("the file carries no Mooncake plugin manifest")

const (
	// maxManifest bounds one manifest inside a program, in bytes.
	maxManifest = 256 << 10
	// maxDamaged bounds how many places that only look like the start of a manifest are
	// decoded in one program. Honest programs have none; without a bound a small file full
	// of such places costs hours.
	maxDamaged = 16
)

// ScanManifest finds the first manifest inside the bytes of an executable. It never runs
// anything and accepts hostile input: what it does is proportional to the length of the
// program, and it gives up on one with too many damaged manifests. ErrNoManifest means
// that there is none.
func ScanManifest(program []byte) (Manifest, error) {
	var first Manifest
	err := ScanManifests(program, func(m Manifest) bool { first = m; return false })
	return first, err
}

// ScanManifests is ScanManifest for a program into which several plugins are linked. It passes each manifest to found, in the order
// in the program, until found returns false. It returns an error if it found none.
func ScanManifests(program []byte, found func(Manifest) bool) error {
	return scan(program, decodeManifest, found)
}

// scan tries decode at every place that looks like the start of a manifest.
func scan(program []byte, decode func([]byte) (Manifest, error), found func(Manifest) bool) error {
	mark := manifestMark()
	err := ErrNoManifest
	some := false
	for rest, damaged := program, 0; ; rest = rest[len(mark):] {
		i := bytes.Index(rest, mark)
		switch {
		case i < 0 && some:
			return nil
		case i < 0:
			return err
		case damaged == maxDamaged:
			return fmt.Errorf("the file has more than %d damaged plugin manifests; the last: %w", maxDamaged, err)
		}
		rest = rest[i:]
		m, e := decode(rest[:min(len(rest), maxManifest)])
		if e != nil {
			err = e
			damaged++
			continue
		}
		some = true
		if !found(m) {
			return nil
		}
	}
}

// decodeManifest decodes the manifest that text begins with.
func decodeManifest(text []byte) (Manifest, error) {
	var m Manifest
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&m); err != nil {
		return Manifest{}, fmt.Errorf("plugin manifest in the file is damaged: %w", err)
	}
	return m, m.Validate()
}

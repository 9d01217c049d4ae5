package arena

import (
	_ "embed" // for manifest.json
	"fmt"

	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// Config holds the settings of the allocator, in bytes. Extents can be reserved only by an
// allocator whose GranuleBytes is that of the one that gave them out.
type Config struct {
	ArenaBytes   uint64 `json:"arena_bytes" default:"64MiB" range:"4KiB..1TiB" doc:"largest run of slots set aside for one size class"`
	GranuleBytes uint64 `json:"granule_bytes,omitempty" range:"0..64KiB" doc:"sizes are rounded up to it and offsets are multiples of it; a power of two. 0 is 64, or 16 for sizes of which 64 would cost more than 1/128"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() *Config { return plugin.Defaults[Config]() }

// Validate implements plugin.Config.
func (c *Config) Validate() error {
	if g := c.GranuleBytes; g&(g-1) != 0 {
		return fmt.Errorf("granule_bytes is %d, allowed are powers of two, and 0 to choose by the size", g)
	}
	return nil
}

// granules say what sizes are rounded up to. Both are powers of two.
type granules struct {
	// coarse is for the sizes that lose little by it, so that sizes that nearly agree can take each
	// other's place, and objects begin where cache lines do.
	coarse uint64
	// fine is for the others. Offsets and limits are multiples of it.
	fine uint64
}

// little is the share of a size that rounding it to the coarse granule may cost, as the divisor of
// the size.
const little = 128

// granules returns what the setting stands for.
func (c Config) granules() granules {
	if c.GranuleBytes == 0 {
		return granules{coarse: 64, fine: 16}
	}
	return granules{coarse: c.GranuleBytes, fine: c.GranuleBytes}
}

// slot rounds a size of at most maxSpace up.
func (g granules) slot(size uint64) uint64 {
	if slot := roundUp(size, g.coarse); slot-size <= size/little {
		return slot
	}
	return roundUp(size, g.fine)
}

// within returns the largest size whose slot fits into a free range. It is less than a coarse
// granule smaller than the range.
func (g granules) within(free uint64) uint64 {
	size := free
	for g.slot(size) > free {
		size--
	}
	return size
}

// roundUp returns the next multiple of a power of two.
func roundUp(n, granule uint64) uint64 { return (n + granule - 1) &^ (granule - 1) }

//go:generate go run ./cmd/mooncake-plugin-alloc-arena --manifest manifest.json
//go:embed manifest.json
var manifestJSON string

// manifest describes the plugin. The host finds the same text in the program's bytes.
func manifest() plugin.Manifest { return plugin.MustParseManifest(manifestJSON) }

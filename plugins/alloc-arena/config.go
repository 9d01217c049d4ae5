package arena

import (
	_ "embed" // for manifest.json
	"fmt"

	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// Config holds the settings of the allocator, in bytes. Extents can be reserved only by an
// allocator whose GranuleBytes is that of the one that gave them out.
type Config struct {
	// ArenaBytes is the largest run of slots that is set aside for one size class; 64 MiB by
	// default, 4 KiB to 1 TiB. Classes of more than half of it get no arenas.
	ArenaBytes uint64 `json:"arena_bytes"`
	// GranuleBytes is what sizes are rounded up to and offsets are multiples of, a power of two
	// from 1 to 65536. Less than one granule is lost per extent, and at the end of a space. 0, the
	// default, chooses by the size: 64, or 16 where 64 would cost more than 1/128 of it; offsets
	// are multiples of 16 then. Left out where it is 0, which a version of this plugin that runs in
	// a process of its own may not know.
	GranuleBytes uint64 `json:"granule_bytes,omitempty"`
}

const (
	minArena   = 4 << 10
	maxArena   = 1 << 40
	maxGranule = 64 << 10
)

// DefaultConfig returns the defaults.
func DefaultConfig() *Config { return &Config{ArenaBytes: 64 << 20} }

// Validate implements plugin.Config.
func (c *Config) Validate() error {
	if c.ArenaBytes < minArena || c.ArenaBytes > maxArena {
		return fmt.Errorf("arena_bytes is %d, allowed are %d to %d", c.ArenaBytes, minArena, maxArena)
	}
	if g := c.GranuleBytes; g > maxGranule || g&(g-1) != 0 {
		return fmt.Errorf("granule_bytes is %d, allowed are powers of two from 1 to %d, and 0 to choose by the size", g, maxGranule)
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

//go:embed manifest.json
var manifestJSON string

// manifest describes the plugin. The host finds the same text in the program's bytes.
func manifest() plugin.Manifest { return plugin.MustParseManifest(manifestJSON) }

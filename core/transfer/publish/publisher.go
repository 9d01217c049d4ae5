// Package publish tells the metadata service what peers need to reach the memory of this process.
package publish

import (
	"log/slog"
	"math/rand/v2"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/transfer/carrier"
	"github.com/mooncake-go/mooncake/core/transfer/region"
	"github.com/mooncake-go/mooncake/sdk/matrix"
)

// Publisher tells the directory what peers need to reach the memory of this process.
type Publisher struct {
	dir      metadata.Directory
	carriers *carrier.Set
	regions  *region.Table
	topology matrix.Matrix
	log      *slog.Logger
	id       uint64 // distinguishes this engine from an earlier one of the same name

	turn chan struct{} // capacity 1, full while a goroutine publishes
	on   bool          // something is published
	last *metadata.Descriptor
}

// New returns a publisher that has published nothing.
func New(dir metadata.Directory, carriers *carrier.Set, regions *region.Table, topology matrix.Matrix, log *slog.Logger) *Publisher {
	return &Publisher{
		dir: dir, carriers: carriers, regions: regions, topology: topology, log: log,
		id: max(rand.Uint64(), 1), turn: make(chan struct{}, 1),
	}
}

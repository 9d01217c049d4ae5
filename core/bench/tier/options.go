package tier

import (
	"log/slog"
	"os"

	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// Options says what to measure.
type Options struct {
	// Catalog has the tier.
	Catalog *pluginhost.Catalog
	ID      plugin.ID
	// Config has settings of the tier, beside path and capacity_bytes: a folder of its own below Path,
	// with space for the records.
	Config map[string]any
	// Path is a folder on the disk to measure.
	Path string
	// Records of RecordSize bytes are written and read in each round.
	Records, RecordSize int
	Rounds              int
	// Subprocess measures the tier as a process of its own as well, whose program the catalog finds.
	Subprocess bool
	Log        *slog.Logger
	// Note takes lines about the progress and what is missing; nil for none.
	Note func(string)
}

// The bounds of Options.
const (
	maxRecords    = 1 << 20
	minRecordSize = 4 << 10
	maxRecordSize = 64 << 20
	maxRounds     = 100
)

func (o Options) validate() error {
	bad := func(format string, args ...any) error {
		return errs.New(errs.InvalidParams, "bench tier", format, args...)
	}
	switch {
	case o.Records < maxDepth || o.Records > maxRecords:
		return bad("%d records, want %d to %d", o.Records, maxDepth, maxRecords)
	case o.RecordSize < minRecordSize || o.RecordSize > maxRecordSize || o.RecordSize%minRecordSize != 0:
		return bad("records of %d bytes, want a multiple of %d up to %d", o.RecordSize, minRecordSize, maxRecordSize)
	case o.Rounds < 1 || o.Rounds > maxRounds:
		return bad("%d rounds, want 1 to %d", o.Rounds, maxRounds)
	}
	info, err := os.Stat(o.Path)
	switch {
	case err != nil:
		return errs.WithHint(errs.Wrap(errs.InvalidParams, "bench tier", err), "give a folder on the disk to measure: --path /mnt/nvme0")
	case !info.IsDir():
		return bad("%s is not a folder", o.Path)
	}
	return nil
}

// maxDepth is the largest number of operations in flight.
const maxDepth = 32

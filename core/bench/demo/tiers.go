package demo

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/core/bench/report"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

const (
	// tierHeader bounds what a storage tier needs for a page beside its bytes, and tierFull is the used share of a tier
	// that leads to no eviction.
	tierHeader = 8 << 10
	tierFull   = 0.8
	// waveBytes is what one read has a store stage at most, unless a page is larger, and savings how many pages a store
	// saves at once.
	waveBytes, waves, savings = 32 << 20, 4, 4
)

// tierSize is the size in bytes of the storage tier of each store, 0 without tiers. If the options do not say it, it is
// enough for the whole working set: pages spread evenly over the stores, more or less; twice the share of a store holds
// all that it gets.
func (o Options) tierSize(distinct int) uint64 {
	switch {
	case !o.Tiers:
		return 0
	case o.TierBytes > 0:
		return o.TierBytes / uint64(o.Stores)
	}
	pages := min(distinct, 2*(distinct/o.Stores+1))
	return uint64(float64(pages) * float64(o.PageSize+tierHeader) / tierFull)
}

// tierBuffer is the memory in bytes through which a store reads and writes its tier: enough for what all workers read from
// one store at a time, so that no read fails.
func (o Options) tierBuffer() uint64 {
	wave := max(o.PageSize, min(waveBytes, uint64(o.Window)*o.PageSize))
	return uint64(o.Workers)*waves*wave + savings*o.PageSize
}

// folder returns where the demo's folder is to be, empty for the usual place. Storage tiers are to be on a disk with space
// for them: if the usual place is in memory, they lie in the user's cache folder. If that is in memory too, note says so.
func (o Options) folder(tierSize uint64) (base, note string, err error) {
	if !o.Tiers {
		return "", "", nil
	}
	base = os.TempDir()
	free, inMemory, err := space(base)
	if err != nil {
		return "", "", err
	}
	if inMemory {
		if cache, err := os.UserCacheDir(); err == nil && os.MkdirAll(cache, 0o700) == nil {
			if n, m, err := space(cache); err == nil && !m {
				base, free, inMemory = cache, n, false
			}
		}
	}
	if need := uint64(o.Stores) * tierSize; free < need {
		return "", "", errs.WithHint(errs.New(errs.NoAvailableHandle, "demo", "%s has %s of free space, and the storage tiers need %s", base, report.Bytes(free), report.Bytes(need)),
			"set TMPDIR to a folder on another disk, or use fewer requests or smaller pages")
	}
	if inMemory {
		note = fmt.Sprintf("%s is in memory, not on a disk, and so are the storage tiers; set TMPDIR to a folder on a disk", base)
	}
	return base, note, nil
}

// space returns the free bytes of a folder's file system, and whether it lies in memory.
func space(folder string) (free uint64, inMemory bool, err error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(folder, &fs); err != nil {
		return 0, false, fmt.Errorf("demo: look for space for the storage tiers in %s: %w", folder, err)
	}
	return fs.Bavail * uint64(fs.Bsize), fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.RAMFS_MAGIC, nil
}

package profile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"time"

	"github.com/google/pprof/profile"

	"github.com/mooncake-go/mooncake/core/bench/profile/flame"
	"github.com/mooncake-go/mooncake/core/internal/profiling"
)

// What the runtime samples during Record. All waits would change what is measured.
const (
	allocRate     = 16 << 10 // bytes allocated for a sample
	blockRate     = 10_000   // nanoseconds waited for a sample
	mutexFraction = 5        // one of so many waits for a lock
)

// Load is something to profile.
type Load struct {
	// Name is that of the folder with its profiles.
	Name string
	// Run does the load until end, and once at least.
	Run func(ctx context.Context, end time.Time) error
}

// Record does the load for a time, and writes dir/NAME/KIND.pprof, .folded and .svg for each
// kind of profile, in place of what was there. The profiles are of the whole process: nothing else
// should run in it, and one Record at a time. It fails where another CPU profile is being taken.
func Record(ctx context.Context, dir string, l Load, d time.Duration) error {
	profiles, err := take(ctx, l, d)
	if err != nil {
		return fmt.Errorf("profile of %s: %w", l.Name, err)
	}
	dir = filepath.Join(dir, l.Name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, k := range kinds {
		if err := k.write(filepath.Join(dir, k.name), l.Name, profiles[k.name]); err != nil {
			return fmt.Errorf("%s profile of %s: %w", k.name, l.Name, err)
		}
	}
	return nil
}

// take returns the profiles of one run of the load, by the name of their kind.
func take(ctx context.Context, l Load, d time.Duration) (map[string]*profile.Profile, error) {
	rate := runtime.MemProfileRate
	runtime.MemProfileRate = allocRate
	defer func() { runtime.MemProfileRate = rate }()
	defer profiling.Sample(blockRate, mutexFraction)()
	before, err := snapshots()
	if err != nil {
		return nil, err
	}
	var cpu bytes.Buffer
	if err := pprof.StartCPUProfile(&cpu); err != nil {
		return nil, err
	}
	err = l.Run(ctx, time.Now().Add(d))
	pprof.StopCPUProfile()
	if err != nil {
		return nil, err
	}
	after, err := snapshots()
	if err != nil {
		return nil, err
	}
	all := map[string]*profile.Profile{}
	for _, k := range kinds {
		if k.lookup == "" {
			all[k.name], err = parse(k.name, cpu.Bytes())
		} else {
			all[k.name], err = since(before[k.lookup], after[k.lookup])
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// write writes the three files of a profile; path is theirs without what tells them apart.
func (k kind) write(path, load string, p *profile.Profile) error {
	i, err := index(p, k.value)
	if err != nil {
		return err
	}
	stacks := fold(p, i)
	graph := flame.Graph{Title: load + ": " + k.title, Format: k.format, Stacks: stacks}
	return errors.Join(
		create(path+".pprof", p.Write),
		create(path+".folded", func(w io.Writer) error { return writeFolded(w, stacks) }),
		create(path+".svg", graph.WriteSVG),
	)
}

func create(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// Package profile measures what a load spends its time and memory on: CPU, allocation, mutex and
// block profiles of this process while it does the load, in the format of `go tool pprof`. It has
// the loads too: puts and gets of a store, and the calls to a master.
package profile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"time"

	"github.com/google/pprof/profile"

	"github.com/mooncake-go/mooncake/core/internal/profiling"
)

// What the runtime samples during Record. All waits would change what is measured.
const (
	allocRate     = 16 << 10 // bytes allocated for a sample
	blockRate     = 10_000   // nanoseconds waited for a sample
	mutexFraction = 5        // one of so many waits for a lock
)

// kinds are the profiles that Record writes beside that of CPU, by their names in the runtime.
var kinds = []string{"allocs", "mutex", "block"}

// Load is something to profile.
type Load struct {
	// Name is that of the folder with its profiles.
	Name string
	// Run does the load until end, and once at least.
	Run func(ctx context.Context, end time.Time) error
}

// Record does the load for a time, and writes dir/NAME/KIND.pprof for each kind of profile: cpu,
// allocs, mutex and block. It replaces what was there. The profiles are of the whole process:
// nothing else should run in it, and one Record at a time. It fails if another CPU profile is being
// taken.
func Record(ctx context.Context, dir string, l Load, d time.Duration) error {
	profiles, err := take(ctx, l, d)
	if err != nil {
		return fmt.Errorf("profile of %s: %w", l.Name, err)
	}
	dir = filepath.Join(dir, l.Name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, p := range profiles {
		f, err := os.Create(filepath.Join(dir, name+".pprof"))
		if err != nil {
			return err
		}
		if err := errors.Join(p.Write(f), f.Close()); err != nil {
			return fmt.Errorf("%s profile of %s: %w", name, l.Name, err)
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
	if all["cpu"], err = parse("cpu", cpu.Bytes()); err != nil {
		return nil, err
	}
	for _, name := range kinds {
		if all[name], err = since(before[name], after[name]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// snapshot is the runtime's profile of everything since the process began.
func snapshot(name string) (*profile.Profile, error) {
	var b bytes.Buffer
	if err := pprof.Lookup(name).WriteTo(&b, 0); err != nil {
		return nil, fmt.Errorf("%s profile: %w", name, err)
	}
	return parse(name, b.Bytes())
}

func parse(name string, data []byte) (*profile.Profile, error) {
	p, err := profile.ParseData(data)
	if err != nil {
		return nil, fmt.Errorf("%s profile: %w", name, err)
	}
	return p, nil
}

// snapshots has the profiles of the runtime by name. The profile of allocations is as of the
// last collection, so there is one first.
func snapshots() (map[string]*profile.Profile, error) {
	runtime.GC()
	all := map[string]*profile.Profile{}
	for _, name := range kinds {
		p, err := snapshot(name)
		if err != nil {
			return nil, err
		}
		all[name] = p
	}
	return all, nil
}

// since is what came to a profile after an earlier one of the same process.
func since(before, after *profile.Profile) (*profile.Profile, error) {
	before.Scale(-1)
	p, err := profile.Merge([]*profile.Profile{before, after})
	if err != nil {
		return nil, err
	}
	p.TimeNanos, p.DurationNanos = before.TimeNanos, after.TimeNanos-before.TimeNanos
	return p, nil
}

package profile

import (
	"bytes"
	"fmt"
	"runtime"
	"runtime/pprof"

	"github.com/google/pprof/profile"
)

// kinds are the profiles that Record writes beside that of CPU, by their names in the runtime.
var kinds = []string{"allocs", "mutex", "block"}

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

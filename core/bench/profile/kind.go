package profile

import (
	"bytes"
	"fmt"
	"runtime"
	"runtime/pprof"
	"time"

	"github.com/google/pprof/profile"
)

// kind is a kind of profile.
type kind struct {
	name   string // of its files
	lookup string // of the runtime's profile; empty for the CPU profile
	value  string // the sample type that stacks are folded by
	title  string
	format func(int64) string
}

// kinds are what Record writes.
var kinds = []kind{
	{name: "cpu", value: "cpu", title: "processor time", format: nanoseconds},
	{name: "allocs", lookup: "allocs", value: "alloc_space", title: "bytes allocated", format: size},
	{name: "mutex", lookup: "mutex", value: "delay", title: "time that others waited for a lock held here", format: nanoseconds},
	{name: "block", lookup: "block", value: "delay", title: "time waited here for locks, channels and other goroutines", format: nanoseconds},
}

func nanoseconds(v int64) string { return time.Duration(v).Round(time.Microsecond).String() }

func size(v int64) string {
	switch {
	case v >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(v)/(1<<20))
	case v >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(v)/(1<<10))
	}
	return fmt.Sprintf("%d B", v)
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
	for _, k := range kinds {
		if k.lookup == "" {
			continue
		}
		p, err := snapshot(k.lookup)
		if err != nil {
			return nil, err
		}
		all[k.lookup] = p
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

// index is where samples of a profile have the value of a type.
func index(p *profile.Profile, value string) (int, error) {
	for i, t := range p.SampleType {
		if t.Type == value {
			return i, nil
		}
	}
	return 0, fmt.Errorf("the profile counts no %q", value)
}

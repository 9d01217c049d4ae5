package memory

import (
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestReadRoom(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	cases := []struct {
		name string
		root fstest.MapFS
		want Room
		left uint64
	}{
		{"nothing known", fstest.MapFS{}, Room{}, 0},
		{"no limit", fstest.MapFS{
			"proc/self/cgroup": file("0::/x\n"), "sys/fs/cgroup/x/memory.max": file("max\n"), "sys/fs/cgroup/x/memory.current": file("7\n"),
		}, Room{}, 0},
		{"version 2, an ancestor with less room than the group", fstest.MapFS{
			"proc/self/cgroup":                 file("0::/x/y\n"),
			"sys/fs/cgroup/x/y/memory.max":     file("1000\n"),
			"sys/fs/cgroup/x/y/memory.current": file("100\n"),
			"sys/fs/cgroup/x/memory.max":       file("8000\n"),
			"sys/fs/cgroup/x/memory.current":   file("7800\n"),
			"sys/fs/cgroup/x/memory.stat":      file("anon 7000\nfile 600\ninactive_file 400\nactive_file 100\nshmem 99\n"),
		}, Room{Group: "/sys/fs/cgroup/x", Limit: 8000, Used: 7800, Cache: 500}, 700},
		{"version 1", fstest.MapFS{
			"proc/self/cgroup": file("2:hugetlb,memory:/a\n0::/\n"),
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes": file("1000\n"),
			"sys/fs/cgroup/memory/a/memory.usage_in_bytes": file("1200\n"),
			"sys/fs/cgroup/memory/a/memory.stat":           file("inactive_file 1\ntotal_inactive_file 300\n"),
		}, Room{Group: "/sys/fs/cgroup/memory/a", Limit: 1000, Used: 1200, Cache: 300}, 100},
		{"used beyond the limit", fstest.MapFS{
			"proc/self/cgroup":             file("0::/\n"),
			"sys/fs/cgroup/memory.max":     file("1000\n"),
			"sys/fs/cgroup/memory.current": file("1200\n"),
		}, Room{Group: "/sys/fs/cgroup", Limit: 1000, Used: 1200}, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := ReadRoom(c.root)
			require.Equal(t, c.want, got)
			require.Equal(t, c.left, got.Left())
		})
	}
}

// group is a control group of 64 MiB of which used MiB are charged, 16 MiB of them cached files.
func group(used int) fstest.MapFS {
	return fstest.MapFS{
		"proc/self/cgroup":                 {Data: []byte("0::/pod\n")},
		"sys/fs/cgroup/pod/memory.max":     {Data: fmt.Append(nil, 64<<20)},
		"sys/fs/cgroup/pod/memory.current": {Data: fmt.Append(nil, used<<20)},
		"sys/fs/cgroup/pod/memory.stat":    {Data: fmt.Appendf(nil, "inactive_file %d\n", 16<<20)},
	}
}

// TestAllocateKeepsPromises: memory that is to be filled has to fit into what the control group has
// left, beside what was promised to other blocks that are not filled yet.
func TestAllocateKeepsPromises(t *testing.T) {
	with := func(used int) Options { return Options{Root: group(used), Promise: true} }
	_, err := Allocate(41<<20, with(40))
	require.True(t, errs.Is(err, errs.InvalidParams), "%v", err)
	for _, want := range []string{"41 MiB", "/sys/fs/cgroup/pod has room for 40 MiB", "limit is 64 MiB", "40 MiB are used", "16 MiB are cached", "raise the memory limit"} {
		require.ErrorContains(t, err, want)
	}
	var s *Shortage
	require.ErrorAs(t, err, &s)
	require.EqualValues(t, 1<<20, s.Missing())

	first, err := Allocate(24<<20, with(40))
	require.NoError(t, err)
	_, err = Allocate(17<<20, with(40))
	require.ErrorContains(t, err, "24 MiB were promised")
	other, err := Allocate(41<<20, Options{Root: group(40)})
	require.NoError(t, err, "memory that may stay empty")
	require.NoError(t, other.Close())

	clear(first.Bytes()[:12<<20]) // Half of it is charged from now on.
	_, err = Allocate(20<<20, with(52))
	require.ErrorContains(t, err, "has room for 1", "of the 28 MiB, about 12 are promised")
	second, err := Allocate(16<<20, with(52))
	require.NoError(t, err)
	require.NoError(t, first.Close())
	third, err := Allocate(24<<20, with(40))
	require.NoError(t, err, "what was promised to a block goes with it")
	require.NoError(t, second.Close())
	require.NoError(t, third.Close())
}

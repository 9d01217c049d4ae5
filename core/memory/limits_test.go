package memory

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestReadLimits(t *testing.T) {
	cases := []struct {
		name string
		root fstest.MapFS
		want Limits
	}{
		{"nothing known", fstest.MapFS{}, Limits{}},
		{"version 2, limit on an ancestor", fstest.MapFS{
			"proc/meminfo":                   {Data: []byte("MemFree: 1 kB\nMemTotal: 2048 kB\n")},
			"proc/self/cgroup":               {Data: []byte("0::/x/y\n")},
			"sys/fs/cgroup/x/y/memory.max":   {Data: []byte("max\n")},
			"sys/fs/cgroup/x/memory.max":     {Data: []byte("4096\n")},
			"sys/fs/cgroup/memory.max":       {Data: []byte("8192\n")},
			"sys/fs/cgroup/other/memory.max": {Data: []byte("1\n")},
		}, Limits{Physical: 2 << 20, Cgroup: 4096}},
		{"version 2 in a container: the path is the host's", fstest.MapFS{
			"proc/self/cgroup":         {Data: []byte("0::/../../kubepods/z\n")},
			"sys/fs/cgroup/memory.max": {Data: []byte("12345\n")},
		}, Limits{Cgroup: 12345}},
		{"version 1", fstest.MapFS{
			"proc/self/cgroup": {Data: []byte("3:cpu:/a\n2:hugetlb,memory:/a\n")},
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes": {Data: []byte("777\n")},
			"sys/fs/cgroup/memory/memory.limit_in_bytes":   {Data: []byte("9223372036854771712\n")},
		}, Limits{Cgroup: 777}},
		{"garbage", fstest.MapFS{
			"proc/meminfo":     {Data: []byte("MemTotal: lots\n")},
			"proc/self/cgroup": {Data: []byte("::::\n\x00\n0::\n")},
		}, Limits{}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, ReadLimits(c.root)) })
	}
	require.NotZero(t, ReadLimits(nil).Physical, "the machine itself")
}

func TestHuman(t *testing.T) {
	for n, want := range map[uint64]string{0: "0 B", 1023: "1023 B", 1024: "1 KiB", 1536: "1.5 KiB", 16 << 20: "16 MiB", 1<<64 - 1: "16 EiB"} {
		require.Equal(t, want, Human(n))
	}
}

func FuzzLimits(f *testing.F) {
	f.Add([]byte("MemTotal: 1 kB\n"), []byte("0::/a\n"), []byte("4096"))
	f.Add([]byte("MemTotal: 99999999999999999999 kB\n"), []byte("1:memory:/../..\n"), []byte("max"))
	f.Fuzz(func(t *testing.T, meminfo, self, limit []byte) {
		l := ReadLimits(fstest.MapFS{
			"proc/meminfo": {Data: meminfo}, "proc/self/cgroup": {Data: self},
			"sys/fs/cgroup/a/memory.max": {Data: limit}, "sys/fs/cgroup/memory/memory.limit_in_bytes": {Data: limit},
		})
		if l.Physical%1024 != 0 || l.Available%1024 != 0 || l.Cgroup >= 1<<62 {
			t.Fatalf("%+v", l)
		}
	})
}

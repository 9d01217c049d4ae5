package memory

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

const pool2M = "sys/kernel/mm/hugepages/hugepages-2048kB/"

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

// The explanations: what was asked for, what there is, and the command that helps.
func TestHugePageShortages(t *testing.T) {
	pool := func(more fstest.MapFS) fstest.MapFS {
		root := fstest.MapFS{
			"proc/meminfo":          file("MemTotal: 67108864 kB\nHugepagesize:       2048 kB\n"),
			pool2M + "nr_hugepages": file("100\n"), pool2M + "free_hugepages": file("40\n"), pool2M + "resv_hugepages": file("30\n"),
			"proc/self/cgroup": file("0::/pod\n"),
		}
		for name, f := range more {
			root[name] = f
		}
		return root
	}
	cases := []struct {
		name string
		root fstest.MapFS
		page HugePages
		size uint64
		want string
	}{
		{"the free ones are promised to others", pool(nil), Huge2M, 32 << 20,
			"16 huge pages of 2MB are needed, 10 are free, 6 more are missing (12 MiB) (run as root: sysctl -w vm.nr_hugepages=106; or turn huge pages off)"},
		{"another size than the default", pool(fstest.MapFS{
			"sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages":   file("1"),
			"sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages": file("1"),
		}), Huge1G, 3 << 30,
			"3 huge pages of 1GB are needed, 1 are free, 2 more are missing (2 GiB) (run as root: echo 3 > /sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages; or turn huge pages off)"},
		{"the control group, version 2", pool(fstest.MapFS{"sys/fs/cgroup/pod/hugetlb.2MB.max": file("4194304")}), Huge2M, 8 << 20,
			"8 MiB of huge pages of 2MB are needed, but the control group of this process allows 4 MiB (raise the limit hugepages-2Mi of the container, ask for less, or turn huge pages off)"},
		{"the control group's reservations", pool(fstest.MapFS{"sys/fs/cgroup/hugetlb.2MB.rsvd.max": file("2097152"), "sys/fs/cgroup/pod/hugetlb.2MB.max": file("max")}), Huge2M, 8 << 20,
			"allows 2 MiB"},
		{"a container without huge pages", pool(fstest.MapFS{"sys/fs/cgroup/pod/hugetlb.2MB.max": file("0\n")}), Huge2M, 2 << 20, "allows 0 B"},
		{"the control group, version 1", pool(fstest.MapFS{
			"proc/self/cgroup": file("5:hugetlb:/pod\n"), "sys/fs/cgroup/hugetlb/pod/hugetlb.2MB.limit_in_bytes": file("9223372036854771712"),
			"sys/fs/cgroup/hugetlb/hugetlb.2MB.limit_in_bytes": file("2097152"),
		}), Huge2M, 8 << 20, "allows 2 MiB"},
		{"the kernel may make more, not enough", pool(fstest.MapFS{pool2M + "nr_overcommit_hugepages": file("5"), pool2M + "surplus_hugepages": file("1")}), Huge2M, 32 << 20,
			"2 more are missing (4 MiB)"},
		{"the kernel does not know the size", fstest.MapFS{}, Huge1G, 1 << 30,
			"this machine has no huge pages of 1GB (turn huge pages off or boot with hugepagesz=1G)"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := Allocate(c.size, Options{Root: c.root, HugePages: c.page})
			require.ErrorContains(t, err, c.want)
			require.True(t, errs.Is(err, errs.InvalidParams))
			var s *Shortage
			require.True(t, errors.As(err, &s))
			require.Equal(t, c.size, s.Need)
			require.Equal(t, s.Need-s.Have, s.Missing())
		})
	}
	require.NoError(t, checkHuge(pool(nil), Huge2M, 20<<20), "ten pages are free")
	require.NoError(t, checkHuge(pool(fstest.MapFS{pool2M + "nr_overcommit_hugepages": file("6")}), Huge2M, 32<<20))
	require.Zero(t, (&Shortage{Need: 1, Have: 2}).Missing())
	require.Equal(t, []HugePool{{Page: Huge2M, Default: true, Total: 100, Free: 40, Reserved: 30}}, ReadHugePools(pool(nil)))
}

func TestUnreadablePools(t *testing.T) {
	for _, text := range []string{"", "-1", "many", "99999999999999999999999"} {
		root := fstest.MapFS{pool2M + "nr_hugepages": file(text)}
		_, err := ReadHugePool(root, Huge2M)
		require.Error(t, err)
		var broken *fs.PathError
		require.ErrorAs(t, checkHuge(root, Huge2M, 1), &broken)
		require.Empty(t, ReadHugePools(root))
	}
	require.Zero(t, HugePool{Free: 1, Reserved: 2}.Available())
}

// TestHugePagesAreReal takes huge pages of the machine where there are free ones.
func TestHugePagesAreReal(t *testing.T) {
	var b *Block
	for tries := 0; b == nil; tries++ { // Others take huge pages as well, and give them back.
		p, err := ReadHugePool(os.DirFS("/"), Huge2M)
		if err != nil || p.Available() < 2 || p.Limited && p.Limit < 4<<20 {
			t.Skipf("this machine has no free huge pages of 2MB for this process (%+v, %v)", p, err)
		}
		if b, err = Allocate(3<<20, Options{HugePages: Huge2M}); tries == 100 {
			require.NoError(t, err)
		}
	}
	require.Equal(t, uint64(4<<20), b.Size(), "rounded up to whole huge pages")
	b.Bytes()[3<<20] = 1
	// What the kernel says of this very mapping; its counts of free pages are the machine's.
	maps, err := os.ReadFile("/proc/self/smaps")
	require.NoError(t, err)
	_, own, found := strings.Cut(string(maps), fmt.Sprintf("%x-%x ", b.Addr(), b.Addr()+b.Size()))
	require.True(t, found, "one mapping")
	require.Regexp(t, `^[^\n]*\n(\w+: .*\n)*?KernelPageSize: +2048 kB\n`, own)
	require.NoError(t, b.Close())
}

// TestHugePagesAreRefused: asking for more huge pages than there are never gives ordinary ones.
func TestHugePagesAreRefused(t *testing.T) {
	p, err := ReadHugePool(os.DirFS("/"), Huge2M)
	if err == nil && p.Overcommit > 0 {
		t.Skip("this machine makes huge pages on demand")
	}
	// One more than all, since others give pages back; what is taken counts elsewhere.
	_, err = Allocate((p.Total+p.Surplus+1)<<21, Options{HugePages: Huge2M})
	require.True(t, errs.Is(err, errs.InvalidParams), "%v", err)
}

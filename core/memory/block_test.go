package memory

import (
	"os"
	"runtime/debug"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// refusing is a kernel without memfd_create, as seccomp profiles make it.
type refusing struct {
	system
	err error
}

func (r refusing) memfd(string, int) (int, error) { return -1, r.err }

func TestAllocateIsSharedAndLazy(t *testing.T) {
	const size = 1<<30 + 1
	b, err := Allocate(size, Options{Location: "cpu:0"})
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close()) }()
	require.Equal(t, uint64(1<<30+os.Getpagesize()), b.Size(), "rounded up to whole pages")
	require.Equal(t, AddrOf(b.Bytes()), b.Addr())
	require.Equal(t, "cpu:0", b.Location())

	var st unix.Stat_t
	require.NoError(t, unix.Fstat(b.FD(), &st))
	require.Zero(t, st.Blocks, "no page may be touched")

	b.Bytes()[size-1] = 7
	again, err := unix.Mmap(b.FD(), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	require.NoError(t, err)
	require.Equal(t, byte(7), again[size-1], "another mapping of the descriptor sees the bytes")
	require.NoError(t, unix.Munmap(again))
}

func TestAllocatePrefault(t *testing.T) {
	b, err := Allocate(1<<20, Options{Prefault: true})
	require.NoError(t, err)
	defer b.Close() //nolint:errcheck // The test is about the pages.
	var st unix.Stat_t
	require.NoError(t, unix.Fstat(b.FD(), &st))
	require.GreaterOrEqual(t, st.Blocks*512, int64(1<<20), "more where the kernel takes huge pages for shared memory")
}

func TestAllocateWithoutMemfd(t *testing.T) {
	for _, errno := range []error{unix.EPERM, unix.ENOSYS} {
		b, err := allocate(1<<20, Options{}, refusing{err: errno})
		require.NoError(t, err)
		require.Equal(t, -1, b.FD())
		b.Bytes()[1<<20-1] = 1
		require.NoError(t, b.Close())
	}
	_, err := allocate(1<<20, Options{}, refusing{err: unix.EMFILE})
	require.ErrorIs(t, err, unix.EMFILE, "running out of descriptors is not hidden")
}

func TestAllocateRefuses(t *testing.T) {
	root := fstest.MapFS{
		"proc/meminfo":               {Data: []byte("MemTotal:       1048576 kB\n")},
		"proc/self/cgroup":           {Data: []byte("0::/a/b\n")},
		"sys/fs/cgroup/a/memory.max": {Data: []byte("536870912\n")},
		"sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages":   {Data: []byte("10\n")},
		"sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages": {Data: []byte("3\n")},
	}
	cases := []struct {
		name string
		size uint64
		o    Options
		want []string
	}{
		{"zero", 0, Options{Root: root}, []string{"size is 0"}},
		{"over the address space", 1<<64 - 1, Options{Root: root}, []string{"address space"}},
		{"over the machine", 4 << 40, Options{Root: root}, []string{"4 TiB", "this machine has 1 GiB", "ask for less"}},
		{"over the control group", 800 << 20, Options{Root: root}, []string{"800 MiB", "512 MiB", "control group", "raise the memory limit"}},
		{"too few huge pages", 8 << 20, Options{Root: root, HugePages: Huge2M}, []string{"4 huge pages of 2MB", "3 are free", "nr_hugepages"}},
		{"no huge pages of that size", 1, Options{Root: fstest.MapFS{}, HugePages: Huge1G}, []string{"no huge pages of 1GB", "hugepagesz=1G"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := Allocate(c.size, c.o)
			require.True(t, errs.Is(err, errs.InvalidParams), "%v", err)
			for _, w := range c.want {
				require.ErrorContains(t, err, w)
			}
		})
	}
}

func TestCloseTwiceAndUseAfterClose(t *testing.T) {
	for _, k := range []kernel{system{}, refusing{err: unix.EPERM}} {
		b, err := allocate(1<<20, Options{Guard: true}, k)
		require.NoError(t, err)
		kept := b.Bytes()
		kept[0] = 1
		require.NoError(t, b.Close())
		require.NoError(t, b.Close())
		require.Nil(t, b.Bytes())

		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
		require.Panics(t, func() { kept[0] = 2 }, "the guard must fault")
	}
}

func TestParseHugePages(t *testing.T) {
	for in, want := range map[string]HugePages{"": HugeNone, "OFF": HugeNone, "2MB": Huge2M, "1gb": Huge1G} {
		got, err := ParseHugePages(in)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := ParseHugePages("4kb")
	require.ErrorContains(t, err, `"4kb"`)
}

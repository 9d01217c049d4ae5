package memory

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memdir"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func create(t *testing.T, dir string) *os.File {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, "memory"), os.O_RDWR|os.O_CREATE, 0o600)
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func provided(t *testing.T, f *os.File) uint64 {
	t.Helper()
	var st unix.Stat_t
	require.NoError(t, unix.Fstat(int(f.Fd()), &st))
	return uint64(st.Blocks) * 512
}

// TestFiles: a block in a file has all of its pages from the start, is not given to other processes, and leaves what it
// held to the next block. File systems of both page sizes do the same.
func TestFiles(t *testing.T) {
	for name, c := range map[string]struct {
		dir  func(t testing.TB) string
		huge HugePages
	}{
		"tmpfs": {dir: memdir.Tmpfs}, "ramfs": {dir: func(t testing.TB) string { return memdir.Mount(t, "ramfs", "") }},
		"hugetlbfs": {dir: func(t testing.TB) string { return memdir.HugePages(t, 4) }, huge: Huge2M},
		"dax":       {dir: memdir.DAX},
	} {
		t.Run(name, func(t *testing.T) {
			const size = 4 << 20
			f := create(t, c.dir(t))
			require.True(t, InFile(f))
			require.Equal(t, name != "dax", OfMachine(f))
			b, err := Allocate(size, Options{File: f, HugePages: c.huge, Promise: true})
			require.NoError(t, err)
			require.Len(t, b.Bytes(), size)
			if name != "ramfs" { // It does not say, and has no bounds.
				require.Equal(t, uint64(size), provided(t, f))
			}
			require.Equal(t, -1, b.FD(), "another process could not trust it")
			copied, err := b.File()
			require.NoError(t, err)
			info, err := copied.Stat()
			require.NoError(t, err)
			require.Equal(t, int64(size), info.Size())
			require.NoError(t, copied.Close())
			copy(b.Bytes()[size-6:], "object")
			require.NoError(t, b.Close())

			b, err = Allocate(size, Options{File: f, HugePages: c.huge, Prefault: true, Promise: true})
			require.NoError(t, err)
			require.Equal(t, "object", string(b.Bytes()[size-6:]))
			require.NoError(t, b.Close())
			_, err = Allocate(2*size, Options{File: f, HugePages: c.huge})
			require.ErrorContains(t, err, "has 4194304 bytes instead of 8388608")
		})
	}
}

// TestAHoleIsFilled: a page that was taken out of a file is there again before a block is used.
func TestAHoleIsFilled(t *testing.T) {
	f := create(t, memdir.Tmpfs(t))
	const size = 1 << 20
	require.NoError(t, f.Truncate(size))
	require.NoError(t, Reserve(f, 0, size))
	require.NoError(t, unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 64<<10, 64<<10))
	require.Equal(t, uint64(size-64<<10), provided(t, f))
	b, err := Allocate(size, Options{File: f})
	require.NoError(t, err)
	require.Equal(t, uint64(size), provided(t, f))
	require.NoError(t, b.Close())
}

// TestFullFileSystem: a file system without room is an error that says so, not a signal at a later touch.
func TestFullFileSystem(t *testing.T) {
	for name, c := range map[string]struct {
		dir  func(t testing.TB) string
		huge HugePages
		says string
	}{
		"tmpfs":              {dir: func(t testing.TB) string { return memdir.Mount(t, "tmpfs", "size=2m") }, says: "2 MiB are free"},
		"too few huge pages": {dir: func(t testing.TB) string { return memdir.HugePages(t, 1) }, huge: Huge2M, says: "are missing"},
		"a hugetlbfs with a size": {dir: func(t testing.TB) string {
			memdir.HugePages(t, 4)
			return memdir.Mount(t, "hugetlbfs", "pagesize=2M,size=2M")
		}, huge: Huge2M, says: "2 MiB are free"},
	} {
		t.Run(name, func(t *testing.T) {
			size, dir := uint64(4<<20), c.dir(t)
			if c.says == "are missing" {
				pool, err := ReadHugePool(os.DirFS("/"), Huge2M)
				require.NoError(t, err)
				size = (pool.Available() + pool.Overcommit + 8) * uint64(Huge2M)
			}
			_, err := Allocate(size, Options{File: create(t, dir), HugePages: c.huge})
			require.ErrorContains(t, err, c.says)
			require.True(t, errs.Is(err, errs.InvalidParams), "%v", err)
			var s *Shortage
			require.True(t, errors.As(err, &s))
			require.Equal(t, size, s.Need)
		})
	}
}

// TestMemfds: an empty memfd becomes a block that other processes may map, and has pages where it is touched.
func TestMemfds(t *testing.T) {
	fd, err := unix.MemfdCreate("memory", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Skipf("this system permits no memfd: %v", err)
	}
	f := os.NewFile(uintptr(fd), "memory")
	defer f.Close() //nolint:errcheck // It is memory.
	require.False(t, InFile(f))
	b, err := Allocate(1<<20, Options{File: f})
	require.NoError(t, err)
	require.GreaterOrEqual(t, b.FD(), 0)
	require.Zero(t, provided(t, f))
	require.ErrorIs(t, f.Truncate(0), unix.EPERM)
	require.False(t, InFile(f))
	require.NoError(t, b.Close())
}

// TestTouch: what memory holds stays.
func TestTouch(t *testing.T) {
	mem, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(mem)) }()
	mem[0], mem[4096] = 1, 2
	touch(mem)
	require.Equal(t, []byte{1, 2, 0}, []byte{mem[0], mem[4096], mem[8192]})
	resident := make([]byte, 256)
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(AddrOf(mem)), uintptr(len(mem)), uintptr(AddrOf(resident)))
	require.Zero(t, errno)
	for i, r := range resident {
		require.EqualValues(t, 1, r&1, "page %d", i)
	}
}

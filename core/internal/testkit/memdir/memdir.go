// Package memdir makes directories of file systems in memory, for tests.
package memdir

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Tmpfs returns an empty directory of a tmpfs that is there already. It skips the test where there is none.
func Tmpfs(t testing.TB) string {
	t.Helper()
	const shm = "/dev/shm"
	var fs unix.Statfs_t
	if err := unix.Statfs(shm, &fs); err != nil || fs.Type != unix.TMPFS_MAGIC {
		t.Skipf("%s is no tmpfs: %v", shm, err)
	}
	dir, err := os.MkdirTemp(shm, "mooncake-test")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// Mount mounts a file system and returns its root. It skips the test where the machine does not permit it.
func Mount(t testing.TB, kind, options string) string {
	t.Helper()
	dir := t.TempDir()
	err := unix.Mount("none", dir, kind, unix.MS_NOSUID|unix.MS_NODEV, options)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENODEV) {
		t.Skipf("a %s cannot be mounted: %v", kind, err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	return dir
}

// DAXVariable names the environment variable with a directory of a file system that is mounted with -o dax.
const DAXVariable = "MOONCAKE_TEST_DAX"

// DAX returns an empty directory of such a file system, and skips the test where the variable names none.
func DAX(t testing.TB) string {
	t.Helper()
	where := os.Getenv(DAXVariable)
	if where == "" {
		t.Skipf("%s names no directory of a DAX file system", DAXVariable)
	}
	dir, err := os.MkdirTemp(where, "mooncake-test")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// pool is the file with the number of huge pages of 2 MiB, and free that with those that no process has.
const (
	pool = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
	free = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages"
)

// HugePages mounts a hugetlbfs and makes pages of 2 MiB for it, which it gives back when the test ends. It skips the
// test where the machine does not permit it or has no memory for them.
func HugePages(t testing.TB, pages int) string {
	t.Helper()
	had := number(t, pool)
	if err := os.WriteFile(pool, []byte(strconv.Itoa(had+pages)), 0); err != nil {
		t.Skipf("huge pages cannot be made: %v", err)
	}
	t.Cleanup(func() {
		require.NoError(t, os.WriteFile(pool, []byte(strconv.Itoa(number(t, pool)-pages)), 0))
	})
	if number(t, free) < pages {
		t.Skipf("the machine has no memory for %d huge pages", pages)
	}
	return Mount(t, "hugetlbfs", "pagesize=2M,mode=0700")
}

func number(t testing.TB, path string) int {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Skipf("the kernel has no huge pages of 2 MiB: %v", err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	require.NoError(t, err)
	return n
}

package shm

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestMemoryIsShared(t *testing.T) {
	page := os.Getpagesize()
	m, err := Create("shm-test", 3*page)
	require.NoError(t, err)
	require.Len(t, m.Bytes(), 3*page)
	all, err := Map(m.FD(), MapOptions{Size: 3 * page})
	require.NoError(t, err)
	part, err := Map(m.FD(), MapOptions{Offset: int64(page), Size: 10, ReadOnly: true})
	require.NoError(t, err)
	m.Bytes()[page+3] = 7
	assert.EqualValues(t, 7, all.Bytes()[page+3])
	assert.EqualValues(t, 7, part.Bytes()[3])
	assert.Len(t, part.Bytes(), 10)
	assert.Equal(t, -1, part.FD())
	for _, x := range []*Memory{all, part, m, m} {
		require.NoError(t, x.Close())
		require.Nil(t, x.Bytes())
	}
}

func TestMapNear(t *testing.T) {
	m, err := Create("shm-test", os.Getpagesize())
	require.NoError(t, err)
	defer m.Close()
	page := uintptr(os.Getpagesize())
	// An address in the middle of a range that was free a moment ago: the kernel would not pick it.
	room, err := unix.Mmap(-1, 0, int(64*page), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	require.NoError(t, err)
	at := addrOf(room) + 20*page
	require.NoError(t, unix.Munmap(room))
	there, err := Map(m.FD(), MapOptions{Size: int(page), Near: at})
	require.NoError(t, err)
	assert.Equal(t, at, addrOf(there.Bytes()))
	taken, err := Map(m.FD(), MapOptions{Size: int(page), Near: at})
	require.NoError(t, err)
	assert.NotEqual(t, at, addrOf(taken.Bytes()), "something is there")
	require.NoError(t, taken.Close())
	require.NoError(t, there.Close())
}

func TestMemoryThatCanShrinkIsSealedOrRefused(t *testing.T) {
	page := os.Getpagesize()
	file := func(flags int) int {
		fd, err := unix.MemfdCreate("shm-test", unix.MFD_CLOEXEC|flags)
		require.NoError(t, err)
		require.NoError(t, unix.Ftruncate(fd, int64(page)))
		t.Cleanup(func() { unix.Close(fd) })
		return fd
	}
	open := file(unix.MFD_ALLOW_SEALING)
	m, err := Map(open, MapOptions{Size: page})
	require.NoError(t, err)
	defer m.Close()
	require.ErrorIs(t, unix.Ftruncate(open, 0), unix.EPERM, "it is sealed now")

	_, err = Map(file(0), MapOptions{Size: page})
	require.ErrorContains(t, err, "can shrink")

	plain, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	defer plain.Close()
	_, err = Map(int(plain.Fd()), MapOptions{Size: page})
	require.Error(t, err)

	ours, err := Create("shm-test", page)
	require.NoError(t, err)
	defer ours.Close()
	require.ErrorIs(t, unix.Ftruncate(ours.FD(), 0), unix.EPERM)
	require.ErrorIs(t, unix.Ftruncate(ours.FD(), int64(2*page)), unix.EPERM)
}

func TestMapOutOfBounds(t *testing.T) {
	page := os.Getpagesize()
	m, err := Create("shm-test", page)
	require.NoError(t, err)
	defer m.Close()
	for name, o := range map[string]MapOptions{
		"nothing":      {},
		"negative":     {Size: -1},
		"before":       {Size: 1, Offset: -int64(page)},
		"odd offset":   {Size: 1, Offset: 1},
		"too long":     {Size: page + 1},
		"behind":       {Size: 1, Offset: int64(page)},
		"far behind":   {Size: 1, Offset: 1 << 62},
		"overflowing":  {Size: 1 << 62, Offset: int64(page)},
		"longer still": {Size: int(^uint(0) >> 1)},
	} {
		_, err := Map(m.FD(), o)
		assert.Error(t, err, name)
	}
	_, err = Create("shm-test", 0)
	require.Error(t, err)
	_, err = Map(-1, MapOptions{Size: 1})
	require.Error(t, err)
}

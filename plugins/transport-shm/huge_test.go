package shm

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/plugins/transport-shm/internal/wire"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// TestHugePages: memory of huge pages is mapped in whole huge pages, wherever the region
// begins in it.
func TestHugePages(t *testing.T) {
	const page, size = 2 << 20, 4 << 20
	fd, err := unix.MemfdCreate("shm-test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_HUGETLB|unix.MFD_HUGE_2MB)
	if err != nil {
		t.Skipf("no huge pages: %v", err)
	}
	defer wire.CloseFD(fd)
	require.NoError(t, unix.Ftruncate(fd, size))
	mem, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Skipf("no free huge pages: %v", err)
	}
	defer func() { require.NoError(t, unix.Munmap(mem)) }()
	server, client := fresh(t), fresh(t)
	const from, length = page + 4096 + 8, page / 2
	key, err := server.Register(t.Context(), transport.Region{ID: 1, Mem: mem[from : from+length], FD: fd, FDOffset: from, Access: transport.AccessRemote})
	require.NoError(t, err)
	p, id := dialTo(t, client, server.Endpoint(), key)
	local := make([]byte, length)
	for i := range local {
		local[i] = byte(i * 3)
	}
	require.Equal(t, transport.OK, one(t, p, transport.Op{Kind: transport.Write, Local: local, Remote: id}).Status)
	require.Equal(t, local, mem[from:from+length])
	r, _ := p.Remote(id)
	p.mu.Lock()
	mapped := len(r.mapping)
	p.mu.Unlock()
	require.Equal(t, page, mapped)
	require.NoError(t, server.Deregister(t.Context(), 1))
	require.Zero(t, client.Stats().Mappings)

	_, _, err = adopt(fd, terms{offset: from, length: length, foreign: true})
	require.ErrorContains(t, err, "huge pages", "those of another user are not mapped")
}

package file

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/plugins/tier-file/internal/aio"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

// TestHugePages: memory on huge pages is read and written without a copy, as far as it is aligned.
func TestHugePages(t *testing.T) {
	const size = 2 << 20
	// Fewer may be those that a test of another package has made for itself.
	if text, err := os.ReadFile("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages"); err != nil || len(text) < len("100\n") {
		t.Skip("this machine has no 100 free huge pages of 2 MiB")
	}
	fd, err := unix.MemfdCreate("tier-file", unix.MFD_CLOEXEC|unix.MFD_HUGETLB)
	if err == nil {
		defer unix.Close(fd)
		err = unix.Ftruncate(fd, size)
	}
	var mem []byte
	if err == nil {
		mem, err = unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	}
	if err != nil {
		t.Skip("this machine has no free huge page: ", err)
	}
	defer unix.Munmap(mem)
	for _, s := range setups(t) {
		if s.v.anyDirect || s.v.buffered {
			continue
		}
		r, g := s.gated(t)
		require.NoError(t, r.Register(t.Context(), tier.Region{ID: 2, Mem: mem, FD: fd}))
		same := 0 // requests that have the caller's memory
		g.failing(func(q *aio.Request) error {
			for _, b := range q.Bufs {
				if at := address(b) - address(mem); at < size {
					same++
				}
			}
			return nil
		})
		rec, value := numbered(2, 1<<20)
		copy(mem, value)
		c := r.one(tier.Op{Kind: tier.Write, Record: rec, Local: [][]byte{mem[:512<<10], mem[512<<10 : 1<<20]}})
		require.NoError(t, c.Err)
		require.Equal(t, 2, same)
		for _, read := range []struct{ off, from, n, same int }{
			{0, 1 << 20, 1 << 20, 1},
			{64 << 10, 0, 128 << 10, 1},
			{4 << 10, 0, 128 << 10, 0}, // not a grain
			{0, 1, 1 << 20, 0},
			{0, 0, 1<<20 - 5, 0},
		} {
			same = 0
			local := mem[read.from:][:read.n]
			clear(local)
			c := r.one(tier.Op{Kind: tier.Read, Record: rec, At: c.At, Offset: uint64(read.off), Local: [][]byte{local}})
			require.NoError(t, c.Err)
			require.Equal(t, value[read.off:][:read.n], local)
			require.Equal(t, read.same, same, "%+v", read)
		}
		require.NoError(t, r.Deregister(t.Context(), 2))
	}
}

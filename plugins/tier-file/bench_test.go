package file

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/sdk/tier"
)

// benchPath is where the benchmarks have their volume; the folder for temporary files by default.
const benchPath = "MOONCAKE_TIER_FILE_BENCH"

// Benchmark reads and writes records at several depths. The memory is on small pages, as that of
// segments is, so every byte is copied once.
func Benchmark(b *testing.B) {
	const records, size = 512, 1 << 20
	for _, engine := range []string{IORing, IOPread} {
		c := *DefaultConfig()
		c.Path, c.IO, c.Capacity = os.Getenv(benchPath), engine, 1<<30
		if c.Path == "" {
			c.Path = b.TempDir()
		}
		t := newTier(c, variant{fileBytes: fileBytes})
		if err := t.Start(context.Background(), newHost()); err != nil {
			b.Log(err)
			continue
		}
		require.NoError(b, t.Wipe(context.Background()))
		mem, err := unix.Mmap(-1, 0, 32*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		require.NoError(b, err)
		fill(mem, 1)
		require.NoError(b, t.Register(context.Background(), tier.Region{ID: 1, Mem: mem, FD: -1}))
		record := func(i int) tier.Record {
			return tier.Record{Key: fmt.Appendf(nil, "%d", i), Size: size}
		}
		at := make([]tier.Locator, records)
		for _, depth := range []int{1, 8, 32} {
			b.Run(fmt.Sprintf("write/%s/depth=%d", engine, depth), func(b *testing.B) {
				b.SetBytes(size)
				streams(b, t, depth, func(i, slot int) tier.Op {
					i %= records
					if at[i] != (tier.Locator{}) {
						require.NoError(b, t.Forget(context.Background(), at[i:i+1]))
					}
					return tier.Op{Kind: tier.Write, Record: record(i), Local: [][]byte{mem[slot*size:][:size]}}
				}, func(i int, c tier.Completion) { at[i%records] = c.At })
			})
		}
		for i := range at {
			if at[i] == (tier.Locator{}) {
				streams(b, t, 1, func(_, slot int) tier.Op {
					return tier.Op{Kind: tier.Write, Record: record(i), Local: [][]byte{mem[slot*size:][:size]}}
				}, func(_ int, c tier.Completion) { at[i] = c.At }, 1)
			}
		}
		for _, depth := range []int{1, 8, 32} {
			b.Run(fmt.Sprintf("read/%s/depth=%d", engine, depth), func(b *testing.B) {
				b.SetBytes(size)
				streams(b, t, depth, func(i, slot int) tier.Op {
					i = i * 7919 % records
					return tier.Op{Kind: tier.Read, Record: record(i), At: at[i], Local: [][]byte{mem[slot*size:][:size]}}
				}, func(int, tier.Completion) {})
			})
		}
		require.NoError(b, t.Stop(context.Background()))
		require.NoError(b, unix.Munmap(mem))
	}
}

// streams keeps depth operations in flight until b.N, or n, have completed.
func streams(b *testing.B, t tier.Tier, depth int, next func(i, slot int) tier.Op, done func(int, tier.Completion), n ...int) {
	total := b.N
	if len(n) > 0 {
		total = n[0]
	}
	number := make([]int, depth)
	started, ended := 0, 0
	begin := func(slot int) {
		if started == total {
			return
		}
		o := next(started, slot)
		o.ID, number[slot] = uint64(slot), started
		started++
		accepted, err := t.Submit([]tier.Op{o})
		require.NoError(b, err)
		require.Equal(b, 1, accepted)
	}
	for slot := range depth {
		begin(slot)
	}
	dst := make([]tier.Completion, depth)
	for ended < total {
		got, err := t.Reap(context.Background(), dst)
		require.NoError(b, err)
		for _, c := range dst[:got] {
			require.NoError(b, c.Err)
			done(number[c.ID], c)
			begin(int(c.ID))
		}
		ended += got
	}
}

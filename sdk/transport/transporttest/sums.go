package transporttest

import (
	"bytes"
	"hash/crc32"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// summed reports whether a path returns checksums.
func summed(p transport.Path) bool {
	return transport.ExtrasOf(p).Checksums
}

// sums compares the checksums of completions with those of the stored bytes, for one operation
// after the other and for several in flight together. No other completion may have a checksum.
func (s *suite) sums(t conformance.T) {
	server, client := s.start(t), s.start(t)
	const size, lead = 2<<20 + 200, 67
	mem, key := s.register(t, server, 1, size, transport.AccessRemote)
	p, ids := dial(t, client, server, key)
	buf := s.local(t, client, 1, size)
	remote := func(o transport.Op) []byte { return mem[o.Offset:][:len(o.Local)] }
	check := func(o transport.Op, c transport.Completion) {
		require.Equal(t, transport.OK, c.Status, "%v", c.Err)
		require.Equal(t, o.Sum && summed(p), c.Summed, "%d bytes, a checksum asked for: %v", len(o.Local), o.Sum)
		require.True(t, bytes.Equal(o.Local, remote(o)))
		want := uint32(0)
		if c.Summed {
			want = crc32.Checksum(o.Local, castagnoli)
		}
		require.Equal(t, want, c.Sum, "%d bytes at %d", len(o.Local), o.Offset)
		require.Equal(t, o.Grains.Sums != nil && summed(p), c.Grained, "%d bytes, the checksums of grains asked for: %v", len(o.Local), o.Grains.Sums != nil)
		if c.Grained {
			require.Equal(t, grainsOf(o), o.Grains.Sums, "%d bytes at %d", len(o.Local), o.Offset)
		}
	}

	var ops []transport.Op
	for i, n := range []int{
		1, 2, 3, 7, 8, 9, 15, 16, 17, 63, 64, 65, 255, 256, 257, 511, 513, 1000, 4095, 4096, 4097,
		32<<10 - 1, 32 << 10, 32<<10 + 1, 64<<10 - 1, 64 << 10, 64<<10 + 1, 512<<10 - 1, 512 << 10, 512<<10 + 1,
		1<<20 - 1, 1 << 20, 1<<20 + 1, 2<<20 - 1, 2 << 20, 2<<20 + 1,
	} {
		for k, kind := range []transport.OpKind{transport.Write, transport.Read} {
			o := transport.Op{ID: 1, Kind: kind, Local: buf[i*5%lead:][:n], Remote: ids[0], Offset: uint64((i*3 + k) % lead), Sum: true}
			fill(o.Local, uint64(2*i+k))
			check(o, do(t, p, o)[1])
			o.Sum = false
			check(o, do(t, p, o)[1])
			o.Grains = transport.Grains{Lead: i * 331 % grain, Size: grain}
			o.Grains.Sums = make([]uint32, len(grainsOf(o)))
			check(o, do(t, p, o)[1])
			if at := len(ops) * 3000; n < 3000 { // For later; it overlaps no other operation.
				o.ID, o.Local, o.Offset, o.Sum = uint64(len(ops)), buf[at:][:n], uint64(at+1), len(ops)%3 != 0
				if len(ops)%2 == 0 {
					o.Grains = transport.Grains{}
				}
				ops = append(ops, o)
			}
		}
	}
	fill(buf, 77)
	for id, c := range do(t, p, ops...) {
		check(ops[id], c)
	}

	empty := do(t, p, transport.Op{ID: 1, Kind: transport.Read, Remote: ids[0], Sum: true})[1]
	require.Equal(t, transport.OK, empty.Status, "%v", empty.Err)
	require.Zero(t, empty.Sum, "the checksum of nothing")
	bad := transport.Op{ID: 1, Kind: transport.Read, Local: buf[:100], Remote: ids[0], Sum: true, Deadline: time.Now().Add(-time.Second)}
	require.False(t, fails(t, p, bad, errs.ClassTransientPath).Summed, "a failed operation has no checksum")
	if summed(p) && !raceEnabled {
		sumsWhileItChanges(t, p, ids[0], mem, buf)
	}
}

// grain is the size of the grains.
const grain = 4096

// grainsOf returns the checksum of each grain of an operation's bytes.
func grainsOf(o transport.Op) (sums []uint32) {
	for at := 0; at < len(o.Local); {
		to := min(at+grain-(o.Grains.Lead+at)%grain, len(o.Local))
		sums = append(sums, crc32.Checksum(o.Local[at:to], castagnoli))
		at = to
	}
	return sums
}

// sumsWhileItChanges reads memory that its owner changes meanwhile. The checksum of the completion
// must be that of the bytes that arrived.
func sumsWhileItChanges(t conformance.T, p transport.Path, id transport.RemoteID, mem, buf []byte) {
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			for i := 0; i < len(mem); i += 509 {
				mem[i]++
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	defer wg.Wait()
	defer close(stop)
	for range 20 {
		c := do(t, p, transport.Op{ID: 1, Kind: transport.Read, Local: buf, Remote: id, Sum: true})[1]
		require.True(t, c.Summed, "%v", c.Err)
		require.Equal(t, crc32.Checksum(buf, castagnoli), c.Sum, "the checksum is that of the bytes that arrived, whatever the memory held before or after")
		o := transport.Op{ID: 1, Kind: transport.Read, Local: buf, Remote: id, Grains: transport.Grains{Lead: 100, Size: grain}}
		o.Grains.Sums = make([]uint32, len(grainsOf(o)))
		require.True(t, do(t, p, o)[1].Grained)
		require.Equal(t, grainsOf(o), o.Grains.Sums, "those of grains, too")
	}
}

package transporttest

import (
	"bytes"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// neighbours reads and writes at the edges of a region that lies between two others.
func (s *suite) neighbours(t conformance.T) {
	const size, guard = 10_007, 64
	server, client := s.start(t), s.start(t)
	mem := s.memory(t, 3*size)
	fill(mem, 1)
	var key transport.Key
	for i := range 3 {
		k, err := server.Register(within(t), s.region(transport.RegionID(1+i), mem[i*size:][:size:size], transport.AccessRemote))
		require.NoError(t, err)
		if i == 1 {
			key = k
		}
	}
	p, ids := dial(t, client, server, key)
	want := bytes.Clone(mem)
	local := s.local(t, client, 1, size+2*guard)
	for i, r := range [][2]int{{0, 1}, {size - 1, 1}, {0, 4096}, {size - 4097, 4097}, {1, size - 1}, {0, size}} {
		at, n := r[0], r[1]
		for j := range local {
			local[j] = 0x77
		}
		buf := local[guard : guard+n]
		must(t, p, transport.Op{ID: 1, Kind: transport.Read, Local: buf, Remote: ids[0], Offset: uint64(at)})
		require.True(t, bytes.Equal(want[size+at:][:n], buf), "read %d at %d", n, at)
		fill(buf, uint64(50+i))
		copy(want[size+at:], buf)
		must(t, p, transport.Op{ID: 2, Kind: transport.Write, Local: buf, Remote: ids[0], Offset: uint64(at)})
		require.True(t, bytes.Equal(want, mem), "write %d at %d touches its range only", n, at)
		for j, b := range local {
			require.False(t, (j < guard || j >= guard+n) && b != 0x77, "read %d at %d touches its buffer only", n, at)
		}
	}
	for _, over := range []transport.Op{
		{Kind: transport.Write, Local: local[:2], Offset: size - 1},
		{Kind: transport.Write, Local: local[:size], Offset: 1},
		{Kind: transport.Read, Local: local[:2], Offset: size - 1},
		{Kind: transport.Read, Local: local[:1], Offset: size},
	} {
		over.ID, over.Remote = 3, ids[0]
		before := bytes.Clone(local)
		refusedOrFailed(t, p, over)
		require.True(t, bytes.Equal(want, mem), "%d bytes at %d are too many", len(over.Local), over.Offset)
		require.True(t, over.Kind == transport.Write || bytes.Equal(before, local), "%d bytes at %d are too many to read", len(over.Local), over.Offset)
	}
}

// refusedOrFailed submits an operation whose range only the transport may know to be wrong:
// Submit refuses it or it fails, class permanent either way.
func refusedOrFailed(t conformance.TB, p transport.Path, o transport.Op) {
	n, err := p.Submit([]transport.Op{o})
	if err != nil {
		require.Zero(t, n)
		require.Equal(t, errs.ClassPermanent, errs.ClassOf(err), "%v", err)
		return
	}
	require.Equal(t, 1, n)
	dst := make([]transport.Completion, 2)
	n, err = p.Reap(within(t), dst)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	wellFormed(t, dst[0])
	require.Equal(t, o.ID, dst[0].ID)
	if c := dst[0]; c.Status != transport.Failed || c.Class() != errs.ClassPermanent {
		t.Fatalf("%s, whose range is past the end of its region, is %s; Submit has to refuse it, or it is Failed with class permanent", opText(o), endText(c))
	}
}

// overlap lets operations that are in flight together share local bytes.
func (s *suite) overlap(t conformance.T) {
	const size, count, step = 5000, 16, 700
	server, client := s.start(t), s.start(t)
	mem, key := s.register(t, server, 1, count*size, transport.AccessRemote)
	p, ids := dial(t, client, server, key)
	buf := s.local(t, client, 1, count*step+size)
	fill(buf, 8)
	var writes []transport.Op
	for i := range count {
		writes = append(writes, transport.Op{ID: uint64(i), Kind: transport.Write, Local: buf[i*step:][:size], Remote: ids[0], Offset: uint64(i * size)})
	}
	must(t, p, writes...)
	for i := range count {
		require.True(t, bytes.Equal(buf[i*step:][:size], mem[i*size:][:size]), "write %d", i)
	}
	clear(buf)
	for i := range count { // One after the other: two at once would be a race of the caller.
		must(t, p, transport.Op{ID: 1, Kind: transport.Read, Local: buf[i:][:size], Remote: ids[0], Offset: uint64(i)})
	}
	require.True(t, bytes.Equal(mem[:size+count-1], buf[:size+count-1]))
	require.True(t, zero(buf[size+count-1:]))
}

// terminal reuses each buffer as soon as its operation has completed.
func (s *suite) terminal(t conformance.T) {
	for _, size := range []int{100, 96 << 10} {
		s.reuse(t, size, s.local)
		if s.shared != nil { // A process of its own has this memory and no copy of it.
			s.reuse(t, size, s.localShared)
		}
	}
}

// reuse keeps a window of reads of the first half of a region and of writes to the second.
func (s *suite) reuse(t conformance.T, size int, local func(conformance.TB, transport.Transport, transport.RegionID, int) []byte) {
	const slots, rounds = 32, 12
	server, client := s.start(t), s.start(t)
	mem, key := s.register(t, server, 1, slots*rounds*size, transport.AccessRemote)
	want := bytes.Clone(mem)
	p, ids := dial(t, client, server, key)
	buf := local(t, client, 1, slots*size)
	next := func(slot, round int) transport.Op {
		o := transport.Op{ID: uint64(slot), Kind: transport.Read, Local: buf[slot*size:][:size], Remote: ids[0]}
		o.Offset = uint64((slot/2*rounds + round) * size)
		if slot%2 == 1 {
			o.Kind, o.Offset = transport.Write, o.Offset+uint64(len(mem)/2)
			fill(o.Local, uint64(1000*slot+round))
			copy(want[o.Offset:], o.Local)
		}
		return o
	}
	ready := make([]transport.Op, slots)
	for slot := range ready {
		ready[slot] = next(slot, 0)
	}
	inFlight, round := map[uint64]transport.Op{}, make([]int, slots)
	dst := make([]transport.Completion, 8)
	for len(ready) > 0 || len(inFlight) > 0 {
		n, err := p.Submit(ready)
		require.NoError(t, err)
		for _, o := range ready[:n] {
			inFlight[o.ID] = o
		}
		ready = ready[n:]
		n, err = p.Reap(within(t), dst)
		require.NoError(t, err)
		for _, c := range dst[:n] {
			require.Equal(t, transport.OK, c.Status, "%v", c.Err)
			o := inFlight[c.ID]
			delete(inFlight, c.ID)
			if o.Kind == transport.Read {
				require.True(t, bytes.Equal(want[o.Offset:][:size], o.Local), "a completed read has stored its bytes")
			}
			for i := range o.Local { // The caller owns the buffer again.
				o.Local[i] = 0xee
			}
			if round[c.ID]++; round[c.ID] < rounds {
				ready = append(ready, next(int(c.ID), round[c.ID]))
			}
		}
	}
	require.True(t, bytes.Equal(want, mem), "the writes stored what their buffers held until the completions")
	require.NoError(t, p.Close(within(t)))
	if at := differs(bytes.Repeat([]byte{0xee}, len(buf)), buf); at >= 0 {
		t.Fatalf("byte %d of the local buffer was written after the completion of its operation, of %d bytes; after the completion the buffer is the caller's", at, size)
	}
}

package store_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/bindings/store"
	"github.com/mooncake-go/mooncake/core/memory"
)

func TestFragmentsIntoRegisteredMemory(t *testing.T) {
	s := open(t, startMaster(t, nil))
	require.Zero(t, put(s, "a", []byte("0123456789")))
	require.Zero(t, put(s, "b", []byte("abcdef")))
	both := make([]byte, 48)
	mem, other := both[:16], both[32:]
	addr := memory.AddrOf(mem)
	require.Zero(t, s.Register(addr, 16))
	r := store.Ranges{
		Buffers: []uint64{addr, addr + 8, memory.AddrOf(other)}, KeyRows: []uint64{0, 3, 4, 5},
		FragRows:   []uint64{0, 3, 4, 5, 7, 8},
		DstOffsets: []uint64{0, 2, 15, 4, 4, 0, 6, 0},
		SrcOffsets: []uint64{8, 0, 0, 0, 4, 1, 0, 0},
		Sizes:      []uint64{2, 1, 2, 1, 3, 3, 3, 1},
	}
	out := make([]store.Code, 8)
	s.GetRanges([]string{"a", "none", "b", "b", "a"}, r, out)
	assert.Equal(t, []store.Code{2, 1, -600, -704, -600, 3, -600, -600}, out,
		"in place, in place, beyond the memory, no object, beyond the object, in the middle of a region, beyond it from there, not registered")
	assert.Equal(t, "890\x00\x00\x00\x00\x00bcd\x00\x00\x00\x00\x00", string(mem))
	assert.Equal(t, make([]byte, 16), other)

	require.Zero(t, s.Unregister(addr))
	s.GetRanges([]string{"a", "none", "b", "b", "a"}, r, out)
	assert.EqualValues(t, -600, out[0], "it is registered no more")
	r.KeyRows[1] = 9
	s.GetRanges([]string{"a", "none", "b", "b", "a"}, r, out)
	for _, code := range out {
		assert.EqualValues(t, -600, code)
	}
}

func TestLayerByLayer(t *testing.T) {
	s := open(t, startMaster(t, nil))
	keys := []string{"a", "b"}
	out := make([]store.Code, 2)
	s.StartPuts(keys, []uint64{6, 3}, &once, out)
	require.Equal(t, []store.Code{0, 0}, out, s.LastError())
	again := make([]store.Code, 1)
	s.StartPuts(keys[:1], []uint64{6}, &once, again)
	assert.EqualValues(t, -705, again[0], "it is being put")
	for layer := range 3 {
		from := pieces([]byte{'a' + byte(layer)}, []byte{'A' + byte(layer)}, []byte{'0' + byte(layer)})
		from.Rows = []uint64{0, 2, 3}
		s.PutHeld(keys, from, []uint64{uint64(layer), uint64(layer) + 3, uint64(layer)}, out)
		require.Equal(t, []store.Code{2, 1}, out, s.LastError())
	}
	s.EndPuts(keys, out)
	require.Equal(t, []store.Code{0, 0}, out, s.LastError())
	assert.Equal(t, "abcABC", string(get(s, "a")))

	s.StartGets(append(keys, "none")[:2], out)
	require.Equal(t, []store.Code{0, 0}, out)
	var x, y, z [2]byte
	to := pieces(x[:], y[:], z[:])
	to.Rows = []uint64{0, 2, 3}
	s.GetHeld(keys, to, []uint64{4, 0, 1}, out)
	assert.Equal(t, []store.Code{4, 2}, out)
	assert.Equal(t, "BC ab 12", string(x[:])+" "+string(y[:])+" "+string(z[:]))
	s.GetHeld(keys, to, []uint64{4, 0}, out)
	assert.Equal(t, []store.Code{-600, -600}, out, "an offset is missing")
	require.Zero(t, s.EndGets(keys))
	s.GetHeld(keys, to, []uint64{4, 0, 1}, out)
	assert.Equal(t, []store.Code{-600, -600}, out, "the sessions ended")

	s.StartPuts([]string{"c"}, []uint64{1}, &once, again)
	require.Zero(t, again[0])
	s.RevokePuts([]string{"c"}, again)
	require.Zero(t, again[0])
	s.Exist([]string{"c"}, again)
	assert.Zero(t, again[0])
}

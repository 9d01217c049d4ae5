package memwire

import (
	"os"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/x/shm"
)

// TestAreasNoticeLateUse: the memory of an area is the plugin's own after Unmap, and Areas tell whether the plugin used it. Until
// the last operation ends, it is the host's.
func TestAreasNoticeLateUse(t *testing.T) {
	const size = 64 << 10
	for name, c := range map[string]struct {
		use  func(b []byte)
		also func(t *testing.T, areas *Areas, fd int)
		late bool
	}{
		"not used":               {use: func([]byte) {}},
		"written at the end":     {use: func(b []byte) { b[size-1] = 1 }, late: true},
		"written, then replaced": {use: func(b []byte) { b[0] = 1 }, also: mapAgain, late: true},
		"not used, replaced":     {use: func([]byte) {}, also: mapAgain},
	} {
		t.Run(name, func(t *testing.T) {
			mem, err := shm.Create("area", size)
			require.NoError(t, err)
			defer func() { require.NoError(t, mem.Close()) }()
			areas := &Areas{}
			b, _, err := areas.Map(7, mem.FD(), 0, size, 0)
			require.NoError(t, err)
			b[1] = 5
			require.EqualValues(t, 5, mem.Bytes()[1])
			a, _, err := areas.Use(7, 0, 8)
			require.NoError(t, err)
			areas.Unmap(7)
			b[2] = 6
			require.EqualValues(t, 6, mem.Bytes()[2], "an operation is in flight")
			areas.Leave(a, false)
			c.use(b)
			require.Zero(t, mem.Bytes()[0])
			require.Zero(t, mem.Bytes()[size-1], "the host's memory is out of reach")
			if c.also != nil {
				c.also(t, areas, mem.FD())
			}
			if err := areas.UnmapAll(); c.late {
				require.ErrorIs(t, err, errUsed)
			} else {
				require.NoError(t, err)
			}
		})
	}
}

// mapAgain maps an area at the address of the last one.
func mapAgain(t *testing.T, areas *Areas, fd int) {
	near := addressOf(areas.last.mem.Bytes())
	_, elsewhere, err := areas.Map(8, fd, 0, uint64(os.Getpagesize()), near)
	require.NoError(t, err)
	require.False(t, elsewhere, "the address is free")
	areas.Unmap(8)
}

func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

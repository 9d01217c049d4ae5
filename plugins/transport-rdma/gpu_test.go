package rdma

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/test/fakeverbs"
)

// TestProcessorLeavesGPUMemoryAlone: a small Write of the processor's memory is copied when
// it is posted, one of a GPU's is not, as the processor would fault.
func TestProcessorLeavesGPUMemoryAlone(t *testing.T) {
	cfg, w := fakes(t, 1)
	c := newCouple(t, cfg, 4096)
	for i, location := range []string{"cpu:0", "cuda:0"} {
		mem := make([]byte, 4096)
		_, err := c.client.Register(within(t), transport.Region{ID: transport.RegionID(5 + i), Mem: mem, FD: -1, Location: location})
		require.NoError(t, err)
		fine(t, c.p, c.read(1, 0, 10)) // Connect.
		stalled := w.Fault(fakeverbs.Fault{Action: fakeverbs.Stall, Device: -1})
		mem[0] = 1
		n, err := c.p.Submit([]transport.Op{{ID: 2, Kind: transport.Write, Local: mem[:32], Remote: c.id}})
		require.NoError(t, err)
		require.Equal(t, 1, n)
		eventually(t, "the device has it", func() bool { return stalled.Hits() == 1 })
		mem[0] = 2
		w.Release()
		var done [1]transport.Completion
		_, err = c.p.Reap(within(t), done[:])
		require.NoError(t, err)
		require.Equal(t, transport.OK, done[0].Status)
		require.EqualValues(t, 1+i, c.mem[0], location)
	}
}

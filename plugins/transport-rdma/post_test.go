package rdma

import (
	"bytes"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/test/fakeverbs"
)

// TestFullDevice: what a device does not take at first it gets again, and what it refuses
// for good fails, one operation for each refusal.
func TestFullDevice(t *testing.T) {
	cfg, w := fakes(t, 1)
	c := newCouple(t, cfg, 1<<20)
	fine(t, c.p, c.read(1000, 0, 1))
	fill(c.buf, 4)
	var ops []transport.Op
	for i := range 16 {
		ops = append(ops, c.write(uint64(i), i<<16, 1<<16))
	}
	for times := 1; times <= 2; times++ { // The second refusal makes the device give up the queue pair.
		rule := w.FailCall("post_wr", -1, 5, times, syscall.ENOMEM)
		fine(t, c.p, ops...)
		require.Equal(t, times, rule.Hits())
		require.True(t, bytes.Equal(c.buf, c.mem))
	}
	for _, errno := range []syscall.Errno{syscall.EINVAL, syscall.ENOMEM} {
		rule := w.FailCall("post_wr", -1, 0, 2, errno)
		got := run(t, c.p, ops...)
		require.Len(t, got, len(ops))
		failed := 0
		for _, r := range got {
			if r.Status != transport.OK {
				failed++
				require.Equal(t, errs.ClassLocalDevice, r.Class(), "%v", r.Err)
				require.ErrorIs(t, r.Err, errno)
			}
		}
		require.Equal(t, 2, rule.Hits())
		require.Positive(t, failed)
		fine(t, c.p, ops...)
	}
}

// TestAcrossConnections: an operation of which some work requests hang on a connection that
// ends slowly is not begun on the next one before they are over.
func TestAcrossConnections(t *testing.T) {
	cfg, w := fakes(t, 1)
	c := newCouple(t, func() *Config {
		c := cfg()
		c.SliceBytes, c.WindowBytes = 4096, 8192
		c.OpTimeout = plugin.Duration(short)
		return c
	}, 1<<20)
	fine(t, c.p, c.read(1000, 0, 1))
	fill(c.buf, 6)
	rule := w.Fault(fakeverbs.Fault{Action: fakeverbs.Stall, Device: -1})
	w.FailCall("ibv_modify_qp/ERR", -1, 0, 1, syscall.EIO) // So that nothing is flushed at once.
	hangs := c.write(1, 0, 4096)
	long := c.write(2, 4096, 64<<10) // Its first work request waits behind.
	got := late(t, c.p, rule, hangs, long)
	require.Equal(t, errs.RPCTimeout, errs.CodeOf(got[1].Err), "%v", got[1].Err)
	require.Equal(t, transport.OK, got[2].Status, "%v", got[2].Err)
	require.True(t, bytes.Equal(c.buf[4096:4096+64<<10], c.mem[4096:4096+64<<10]))
	w.Release()
}

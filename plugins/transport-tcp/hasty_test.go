package tcp

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/frame"
	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/socket"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// swallow has a proxy take all that comes after the hello and say nothing, as the machine of a
// process does that stands still.
func swallow(up bool, at int64, _ []byte) verdict {
	if up && at >= frame.Size {
		return drop
	}
	return pass
}

// TestHastyWriteDoesNotWait: a hasty write whose peer stands still is given up, indeterminate, and so is
// one that no connection takes for that; what is not hasty goes on waiting.
func TestHastyWriteDoesNotWait(t *testing.T) {
	r, f := throughProxy(t, 4096)
	buf := make([]byte, 4096)
	r.ok(t, r.write(buf))
	f.set(swallow)
	hasty := func(id uint64, op transport.Op) transport.Op {
		op.ID, op.Hasty, op.Stall = id, true, 4*time.Second
		return patient(op)
	}
	waiting := patient(r.write(buf[:100]))
	waiting.ID = 7
	r.submit(t, waiting)
	until(t, "it is sent", func() bool {
		r.path.mu.Lock()
		defer r.path.mu.Unlock()
		return r.path.queue.First() == nil && len(r.path.conns) == 1 && !r.path.conns[0].writing
	})
	r.submit(t, hasty(8, r.write(buf[100:200])))
	c := r.reap(t)
	require.EqualValues(t, 8, c.ID, "%v", c.Err)
	require.Equal(t, transport.Quarantined, c.Status)
	require.Equal(t, errs.ClassTransientPeer, c.Class())
	require.True(t, errs.Is(c.Err, errs.RPCTimeout), "%v", c.Err)

	r.silence(t)
	r.submit(t, hasty(9, r.write(buf[200:300])))
	c = r.reap(t)
	require.EqualValues(t, 9, c.ID, "%v", c.Err)
	require.Equal(t, transport.Failed, c.Status, "none of it was sent")
	require.Equal(t, errs.ClassTransientPeer, c.Class())

	r.path.mu.Lock()
	defer r.path.mu.Unlock()
	require.Equal(t, 1, r.path.Len(), "the one that is not hasty")
}

// TestHastyWriteWaitsForOtherConnection: a hasty write that no connection has taken yet is not given up
// for one that stands still while another works.
func TestHastyWriteWaitsForOtherConnection(t *testing.T) {
	r, f := throughProxy(t, 4096)
	r.ok(t, r.write(make([]byte, 64)))
	f.set(swallow)
	r.submit(t, patient(r.write(make([]byte, 64))))
	until(t, "the peer's machine has all of it", func() bool {
		r.path.mu.Lock()
		defer r.path.mu.Unlock()
		c := r.path.conns[0]
		c.gauge.Moved()
		return c.owed() && !c.writing && c.gauge.Unacked.Load() == 0
	})
	r.path.mu.Lock()
	defer r.path.mu.Unlock()
	still := r.path.conns[0]
	still.taken = taken{moved: still.gauge.Moved(), since: time.Now().Add(-2 * hastyPatience)}
	in := patient(r.write(make([]byte, 64)))
	in.ID, in.Hasty = 9, true
	key, err := r.path.Check(&in)
	require.NoError(t, err)
	r.path.accept(&in, key, time.Now())
	require.Equal(t, 2, r.path.Len())
	r.path.conns = append(r.path.conns, &connection{p: r.path, up: true})
	r.path.giveUpHasty(time.Now())
	r.path.conns = r.path.conns[:1]
	require.Equal(t, 2, r.path.Len())
	r.path.giveUpHasty(time.Now())
	require.Equal(t, 1, r.path.Len(), "there is no other any more")
}

// TestHastyReadLeaves: a hasty read leaves a peer that says nothing, although the peer's machine still
// takes requests. Its memory is the caller's again: an answer that comes later goes nowhere. What is not
// hasty waits, and gets its answer.
func TestHastyReadLeaves(t *testing.T) {
	r, f := throughProxy(t, 4096)
	r.ok(t, r.write(bytes.Repeat([]byte{1}, 4096)))
	release := make(chan struct{})
	f.set(func(up bool, _ int64, _ []byte) verdict {
		if !up {
			<-release
		}
		return pass
	})
	buf := make([]byte, 4096)
	op := patient(r.read(buf))
	op.ID, op.Hasty = 1<<20, true
	r.submit(t, op)
	others := uint64(0)
	until(t, "it leaves", func() bool {
		if others < maxPending/2 {
			others++
			r.submit(t, patient(r.read(make([]byte, 64))))
		}
		time.Sleep(10 * time.Millisecond)
		return r.path.Pending() > 0
	})
	c := r.reap(t)
	require.EqualValues(t, 1<<20, c.ID)
	require.Equal(t, transport.Failed, c.Status, "the memory is free again: %v", c.Err)
	require.Equal(t, errs.ClassTransientPeer, c.Class())
	require.True(t, errs.Is(c.Err, errs.RPCTimeout), "%v", c.Err)
	for i := range buf {
		buf[i] = 2
	}
	close(release)
	for range others {
		require.Equal(t, transport.OK, r.reap(t).Status)
	}
	require.Equal(t, 1, f.accepted(), "the answers came over the same connection")
	require.Equal(t, bytes.Repeat([]byte{2}, 4096), buf)
	r.ok(t, r.read(buf))
	require.Equal(t, bytes.Repeat([]byte{1}, 4096), buf)
}

// TestSlowIsNotStill: bytes that are on their way, however slowly, are no sign of a peer that
// stands still, and a path on which they move does not stall.
func TestSlowIsNotStill(t *testing.T) {
	r, f := throughProxy(t, 1<<20)
	r.ok(t, r.write(make([]byte, 64)))
	f.set(func(up bool, at int64, _ []byte) verdict {
		if at >= frame.Size {
			time.Sleep(20 * time.Millisecond)
		}
		return pass
	})
	for _, op := range []transport.Op{r.read(make([]byte, 1<<20)), r.write(make([]byte, 1<<20))} {
		op.Hasty, op.Stall = true, 500*time.Millisecond
		r.ok(t, patient(op))
	}
}

// TestGauge counts what a connection carried in both directions, and stands still when it does.
func TestGauge(t *testing.T) {
	r, _ := throughProxy(t, 4096)
	moved := func() uint64 {
		r.path.mu.Lock()
		defer r.path.mu.Unlock()
		return r.path.moved()
	}
	buf := make([]byte, 4096)
	r.ok(t, r.write(buf))
	until(t, "the write is acknowledged", func() bool { return moved() == 2*frame.Size+4096 })
	r.ok(t, r.read(buf))
	until(t, "the read is as well", func() bool { return moved() == 4*frame.Size+2*4096 })
	r.path.mu.Lock()
	r.path.conns[0].die(errQuiet)
	r.path.mu.Unlock()
	until(t, "the connection is gone", func() bool {
		r.path.mu.Lock()
		defer r.path.mu.Unlock()
		return len(r.path.conns) == 0
	})
	require.EqualValues(t, 4*frame.Size+2*4096, moved(), "what it carried is not forgotten")
}

// TestUnsentIsNotTaken: bytes that the kernel could not send because the local device dropped them
// wait for the network, and those that the peer's receive window holds back wait for the peer.
func TestUnsentIsNotTaken(t *testing.T) {
	start := time.Now()
	for _, c := range []struct {
		name                   string
		unacked, unsent, grows uint32
		still                  bool
	}{
		{"all acknowledged", 0, 0, 0, true},
		{"sent", 1, 0, 0, false},
		{"dropped by the local device", 0, 30408, 0, false},
		{"held back by the receive window", 0, 30408, 300_000, true},
	} {
		var g socket.Gauge
		var s taken
		s.look(&g, start)
		g.Unacked.Store(c.unacked)
		g.Unsent.Store(c.unsent)
		var still time.Duration
		for i := range 5 {
			g.Limited.Add(uint64(c.grows))
			still = s.look(&g, start.Add(time.Duration(i+1)*300*time.Millisecond))
		}
		require.Equal(t, c.still, still >= hastyPatience, c.name)
	}
}

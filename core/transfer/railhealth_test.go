package transfer_test

import (
	"bytes"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/matrix"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// TestDeviceGoesDownInTheMiddle is what rails are for: the batch completes over the other
// device, every byte right, and the rail comes back with its device, gradually.
func TestDeviceGoesDownInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "rdma")
		a, b, r := pairOf(w, names("m", 2), names("m", 2))
		r.set("", func(s *railState) { s.rate = 10e6 })
		batch, err := a.NewBatch(4)
		require.NoError(t, err)
		want := pattern(8<<20, 5)
		var reqs []transfer.Request
		for i := range 4 {
			reqs = append(reqs, transfer.Request{Kind: transport.Write, Local: want[i<<21 : (i+1)<<21], Peer: "b", Addr: b.base + uint64(i<<21)})
		}
		for _, s := range batch.Submit(reqs) {
			require.NoError(t, s.Err)
		}
		time.Sleep(100 * time.Millisecond)
		r.plug("m1", false)
		before := r.moved()["m1-m1"]
		require.NotZero(t, before, "both were in use")
		require.NoError(t, batch.Wait(t.Context()))
		require.Equal(t, transfer.Completed, batch.BatchStatus().State, "%v", batch.BatchStatus().Err)
		require.Equal(t, want, b.mem[:len(want)])
		require.Equal(t, before, r.moved()["m1-m1"], "a rail that is down carries nothing")
		require.NotZero(t, a.Stats().Reroutes)
		require.Zero(t, a.Stats().Failovers)
		require.Equal(t, "down", railStats(t, a, "m1").State)

		r.plug("m1", true)
		synctest.Wait()
		require.Equal(t, "returning", railStats(t, a, "m1").State)
		most := func() int { return r.count("m1", func(s *railState) int { return s.most }) }
		r.set("m1", func(s *railState) { s.most = 0 })
		require.NoError(t, a.move(transport.Write, b, 0, want))
		require.Equal(t, 1, most(), "one operation finds out")
		for range 8 {
			require.NoError(t, a.move(transport.Write, b, 0, want))
		}
		require.Greater(t, most(), 32)
		require.Equal(t, "up", railStats(t, a, "m1").State)
		require.NoError(t, batch.Free())
		a.stop(t)
		b.stop(t)
	})
}

// TestFailingRailIsPaused: errors of one rail cost a few operations, then it is backed off
// for a time that doubles; the other rail carries everything, and no request fails.
func TestFailingRailIsPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "rdma")
		var log bytes.Buffer // read after the nodes stopped
		a, b, r := pairOf(w, names("m", 2), names("m", 2), func(_ *transfer.Config, d *transfer.Deps) { d.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		cfg := transfer.DefaultConfig()
		ops := func() int { return r.count("m1", func(s *railState) int { return s.ops }) }
		for name, broken := range map[string]error{"path": errPath, "device": errDevice} {
			r.set("m1", func(s *railState) { s.err, s.ops = broken, 0 })
			require.NoError(t, a.move(transport.Write, b, 0, pattern(4<<20, 1)), name)
			require.Equal(t, "paused", railStats(t, a, "m1").State, name)
			r.set("m1", func(s *railState) { s.ops = 0 })
			require.NoError(t, a.move(transport.Write, b, 0, pattern(4<<20, 1)))
			require.Zero(t, ops(), "backed off")
			pauses := railStats(t, a, "m1").Pauses
			time.Sleep(cfg.RailPause)
			require.NoError(t, a.move(transport.Write, b, 0, pattern(4<<20, 1)))
			require.Equal(t, 1, ops(), "one operation finds out")
			require.Equal(t, pauses+1, railStats(t, a, "m1").Pauses)
			time.Sleep(cfg.RailPause)
			require.Equal(t, "paused", railStats(t, a, "m1").State, "for longer this time")
			r.set("m1", func(s *railState) { s.err = nil })
			time.Sleep(cfg.MaxRailPause)
			for range 4 {
				require.NoError(t, a.move(transport.Write, b, 0, pattern(8<<20, 1)))
			}
			require.Equal(t, "up", railStats(t, a, "m1").State, name)
		}
		a.stop(t)
		b.stop(t)
		require.Contains(t, log.String(), `level=WARN msg="a rail fails and is backed off" peer=b transport=rdma local=m1 remote=m1 pause=1s`)
		require.Contains(t, log.String(), `level=INFO msg="a rail works again" peer=b transport=rdma local=m1 remote=m1`)
	})
}

// TestPausedRailIsBetterThanNone: with every rail paused, requests still try.
func TestPausedRailIsBetterThanNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "rdma")
		a, b, r := pairOf(w, names("m", 2), names("m", 2), func(c *transfer.Config, _ *transfer.Deps) { c.CoolDown = time.Millisecond })
		r.set("", func(s *railState) { s.err = errPath })
		require.Error(t, a.move(transport.Write, b, 0, pattern(4<<20, 1)))
		require.Equal(t, "paused", railStats(t, a, "m0").State)
		r.set("", func(s *railState) { s.err = nil })
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, a.move(transport.Write, b, 0, pattern(4<<20, 1)))
		a.stop(t)
		b.stop(t)
	})
}

// TestAllRailsDown: requests wait for one to come back, but not for long; with another
// transport they do not wait.
func TestAllRailsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "rdma", "tcp")
		a, b, r := pairOf(w, names("m", 2), names("m", 2))
		require.NoError(t, a.move(transport.Write, b, 0, pattern(10, 1)))
		r.plug("", false)
		synctest.Wait()
		start := time.Now()
		go func() { time.Sleep(3 * time.Second); r.plug("m0", true) }()
		require.NoError(t, a.move(transport.Write, b, 0, pattern(1<<20, 1)))
		require.Equal(t, 3*time.Second, time.Since(start))
		r.plug("", false)
		err := a.move(transport.Write, b, 0, pattern(1<<20, 1))
		require.ErrorContains(t, err, "every rail is down: m0-m0")
		require.Less(t, time.Since(start), 30*time.Second)
		a.stop(t)
		b.stop(t)

		var r2 *railed
		c := w.node("c", []string{"rdma", "tcp"}, 0, withRails(&r2, names("m", 1), names("m", 1)))
		d := w.node("d", []string{"rdma", "tcp"}, 1<<20)
		r2.plug("", false)
		start = time.Now()
		require.NoError(t, c.move(transport.Write, d, 0, pattern(1<<20, 1)))
		require.Zero(t, time.Since(start))
		require.Equal(t, 1, c.wires["tcp"].Dials())
		c.stop(t)
		d.stop(t)
	})
}

// TestRetriesAreBounded: an error that every rail answers ends the request after the
// configured attempts.
func TestRetriesAreBounded(t *testing.T) {
	w := newWorld(t, "rdma")
	few := func(c *transfer.Config, _ *transfer.Deps) { c.Retries, c.RailErrors = 3, 1000 }
	a, b, r := pairOf(w, names("m", 8), names("m", 8), few)
	r.set("", func(s *railState) { s.err = errPath })
	err := a.move(transport.Write, b, 0, pattern(100, 1))
	require.ErrorContains(t, err, "given up after 4 attempts")
	require.ErrorIs(t, err, errPath)
	require.Equal(t, 4, r.count("", func(s *railState) int { return s.ops }))
}

// TestFailedRailIsNotTakenAgain: by the same slice, however fast it is.
func TestFailedRailIsNotTakenAgain(t *testing.T) {
	w := newWorld(t, "rdma")
	never := func(c *transfer.Config, _ *transfer.Deps) { c.RailErrors = 1000 }
	a, b, r := pairOf(w, names("m", 3), names("m", 3), never)
	r.set("m1", func(s *railState) { s.err, s.Speed = errPath, 400e9 })
	r.set("m0", func(s *railState) { s.Speed = 1e9 })
	r.set("m2", func(s *railState) { s.Speed = 1e9 })
	require.NoError(t, a.move(transport.Write, b, 0, pattern(100, 1)))
	require.Equal(t, 1, r.count("m1", func(s *railState) int { return s.ops }))
	require.Equal(t, uint64(1), a.Stats().Reroutes)
}

// TestLocalDeviceFails: then another device of this machine is taken, not another way out
// of the same.
func TestLocalDeviceFails(t *testing.T) {
	w := newWorld(t, "rdma")
	topo, err := matrix.Parse([]byte(`{"cpu:0":[["m0"],["m1"]]}`))
	require.NoError(t, err)
	a, b, r := pairOf(w, names("m", 2), []string{"x", "y", "z"}, func(_ *transfer.Config, d *transfer.Deps) { d.Topology = topo })
	local := make([]byte, 100)
	_, err = a.Register(t.Context(), transfer.Memory{Bytes: local, FD: -1, Location: "cpu:0"})
	require.NoError(t, err)
	r.set("m0", func(s *railState) { s.err = errDevice })
	require.NoError(t, a.move(transport.Write, b, 0, local))
	require.Equal(t, 1, r.count("m0", func(s *railState) int { return s.ops }))
	require.Equal(t, 1, r.count("m1", func(s *railState) int { return s.ops }))
}

// TestSilentPeerWithRails costs two slice timeouts at most, however many rails there are.
func TestSilentPeerWithRails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "rdma")
		a, b, _ := pairOf(w, names("m", 4), names("m", 4))
		a.wires["rdma"].SetHook(func(memtransport.Event) memtransport.Fault { return memtransport.Fault{Stall: true} })
		time.Sleep(time.Second) // Nothing has ever arrived since.
		start := time.Now()
		require.ErrorIs(t, a.move(transport.Write, b, 0, pattern(4<<20, 1)), transfer.ErrTimeout)
		require.Equal(t, 2*transfer.DefaultConfig().SliceTimeout, time.Since(start))
		require.ErrorContains(t, a.move(transport.Write, b, 0, pattern(1, 1)), "backed off")
		a.stop(t)
		b.stop(t)
	})
}

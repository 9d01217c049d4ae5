package rdma

import (
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/blob"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/config"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/inbound"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/rail"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/test/fakeverbs"
)

// heard takes what is in the channel of changes.
func heard(n *node) bool {
	select {
	case <-n.Changed():
		return true
	default:
		return false
	}
}

func TestPortDownAndUp(t *testing.T) {
	cfg, w := fakes(t, 2)
	c := newCouple(t, cfg, 4096)
	for heard(c.client) {
	}
	before := c.client.Endpoint()
	require.Equal(t, plugin.StateOK, c.client.reported().State)
	w.SetPort(0, false)
	eventually(t, "health", func() bool { return c.client.reported().State == plugin.StateDegraded })
	require.Contains(t, c.client.reported().Reason, "port 1 of fake0 is down")
	eventually(t, "changed", func() bool { return heard(c.client) })
	require.NotEqual(t, before.Blob, c.client.Endpoint().Blob)
	require.Equal(t, before.Incarnation, c.client.Endpoint().Incarnation)
	require.Len(t, c.client.Segment().Devices, 1)
	require.NotContains(t, c.client.Stats().Devices[1].Why, "down")
	eventually(t, "the peer's side", func() bool { return !c.server.devices[0].Up.Load() })
	fine(t, c.p, c.read(1, 0, 64), c.write(2, 64, 64))
	w.SetPort(0, true)
	eventually(t, "health", func() bool { return c.client.reported().State == plugin.StateOK })
	eventually(t, "rails", func() bool { return c.p.Rails()[0].Up })
}

// TestTheEndOfAPauseIsTold: a rail to a device that was down when the path was made comes
// back by itself, and a caller that follows the changes learns of it.
func TestTheEndOfAPauseIsTold(t *testing.T) {
	cfg, w := fakes(t, 2)
	w.SetPort(1, false)
	c := newCouple(t, cfg, 4096)
	down := func() bool { return !c.p.Rails()[1].Up }
	require.True(t, down())
	w.SetPort(1, true)
	for stop := time.Now().Add(30 * time.Second); ; {
		require.True(t, time.Now().Before(stop), "a reader that only follows the changes never sees the rail up")
		<-c.client.Changed()
		if !down() {
			break
		}
	}
	fine(t, c.p, transport.Op{ID: 1, Kind: transport.Write, Local: c.write(1, 0, 64).Local, Remote: c.write(1, 0, 64).Remote, Rail: 2})
}

// TestPortDownIsFoundByOthers: connections end and health tells, also when another component
// than the event finds first that the port is down.
func TestPortDownIsFoundByOthers(t *testing.T) {
	cfg, w := fakes(t, 2)
	c := newCouple(t, cfg, 4096)
	op := c.write(1, 0, 64)
	op.Rail = 1
	fine(t, c.p, op)
	w.Change(0, func(d *fakeverbs.Device) { d.State = 1 })
	require.True(t, c.client.devices[0].Refresh(), "as after a handshake that failed")
	w.Event(0, fakeverbs.EventPortError, 0)
	require.Equal(t, plugin.StateDegraded, c.client.reported().State)
	eventually(t, "no connection is left", func() bool { return c.client.Stats().ConnectionsOut == 0 })
}

// TestLatestAnswerCounts: a look at the port that took long does not undo a later one.
func TestLatestAnswerCounts(t *testing.T) {
	cfg, w := fakes(t, 2)
	d := launch(t, cfg()).devices[1]
	for range 300 {
		w.Change(1, func(d *fakeverbs.Device) { d.State = 4 })
		var early sync.WaitGroup
		for range 8 {
			early.Go(func() { d.Query() })
		}
		runtime.Gosched()
		w.Change(1, func(d *fakeverbs.Device) { d.State = 1 })
		d.Query()
		early.Wait()
		require.False(t, d.Up.Load())
	}
}

// TestEventsLost: a device whose port came up without an event is found all the same.
func TestEventsLost(t *testing.T) {
	cfg, w := fakes(t, 2)
	n := launch(t, cfg())
	w.SetPort(1, false)
	eventually(t, "down", func() bool { return !n.devices[1].Up.Load() })
	w.Change(1, func(d *fakeverbs.Device) { d.State = 4 })
	eventually(t, "up", func() bool { return n.devices[1].Up.Load() })
}

// TestAddressChange: connections are made anew from the new address, and the endpoint tells it.
func TestAddressChange(t *testing.T) {
	cfg, w := fakes(t, 1)
	c := newCouple(t, cfg, 4096)
	fine(t, c.p, c.write(1, 0, 64))
	for heard(c.client) {
	}
	w.SetGID(0, 3, fakeverbs.GID{Addr: [16]byte{10: 0xff, 11: 0xff, 12: 10, 13: 78, 15: 9}, Type: 2, IfIndex: 1})
	for _, n := range []*node{c.client, c.server} {
		eventually(t, "the new address", func() bool {
			e, err := blob.DecodeEndpoint(n.Endpoint().Blob)
			return err == nil && e.Devices[0].GID[13] == 78
		})
	}
	eventually(t, "it works again", func() bool { return run(t, c.p, c.write(2, 0, 64))[2].Status == transport.OK })
	require.Contains(t, c.client.Segment().Devices[0].GID, "0a:4e")
	eventually(t, "changed", func() bool { return heard(c.client) })
	require.Greater(t, c.client.Stats().Dials, uint64(1), "old connections do not outlive the address")
}

func TestDeviceFails(t *testing.T) {
	cfg, w := fakes(t, 2)
	c := newCouple(t, cfg, 4096)
	rails := c.p.Rails()
	for _, r := range rails {
		op := c.write(uint64(r.ID), 0, 64)
		op.Rail = r.ID
		fine(t, c.p, op)
	}
	w.Event(0, fakeverbs.EventDeviceFatal, 0)
	for _, n := range []*node{c.client, c.server} {
		eventually(t, "down", func() bool { return !n.devices[0].Up.Load() })
		eventually(t, "its connections end", func() bool { return n.devices[0].out.Len() == 0 })
	}
	w.Event(0, fakeverbs.EventPortActive, 0)
	fine(t, c.p, c.read(9, 0, 64))
	require.False(t, c.p.Rails()[0].Up, "it stays out of use")
	require.Contains(t, c.client.reported().Reason, "out of use")
	key, err := c.server.Register(within(t), transport.Region{ID: 5, Mem: make([]byte, 64), FD: -1, Access: transport.AccessRemote})
	require.NoError(t, err, "the others go on")
	_, err = c.p.Import(within(t), key)
	require.NoError(t, err)
}

// TestQueuePairFails: the event alone makes a new connection.
func TestQueuePairFails(t *testing.T) {
	cfg, w := fakes(t, 1)
	c := newCouple(t, cfg, 4096)
	fine(t, c.p, c.read(1, 0, 64))
	first := func(n *node) *rail.Conn {
		if all := n.devices[0].out.All(); len(all) > 0 {
			return all[0]
		}
		return nil
	}
	number := func(c interface{ Numbers() (qps, psns []uint32) }) uint32 {
		qps, _ := c.Numbers()
		return qps[0]
	}
	old := first(c.client)
	w.Event(0, fakeverbs.EventQPFatal, number(old))
	<-old.Gone()
	eventually(t, "it works again", func() bool { return run(t, c.p, c.read(2, 0, 64))[2].Status == transport.OK })

	old = first(c.client)
	var peers []*inbound.Conn
	eventually(t, "one connection of a peer", func() bool {
		peers = c.server.devices[0].in.All()
		return len(peers) == 1
	})
	w.Event(0, fakeverbs.EventQPFatal, number(peers[0]))
	<-old.Gone() // The lifeline tells.
	eventually(t, "it works again", func() bool { return run(t, c.p, c.read(3, 0, 64))[3].Status == transport.OK })
}

// TestIdle: connections without work end, on both sides, and come back with work.
func TestIdle(t *testing.T) {
	cfg, w := fakes(t, 1)
	c := newCouple(t, func() *Config {
		c := cfg()
		c.IdleTimeout = plugin.Duration(20 * time.Millisecond)
		return c
	}, 4096)
	for range 3 {
		fine(t, c.p, c.read(1, 0, 64))
		// The client counts a connection until it is taken apart, a moment longer than its queue pairs
		// live.
		eventually(t, "no queue pair and no connection is left", func() bool {
			return w.Live(os.Getpid())["qp"] == 0 && c.client.Stats().ConnectionsOut == 0
		})
	}
	s := c.client.Stats()
	require.EqualValues(t, 3, s.Dials)
	require.Zero(t, s.DialsFailed)
}

// TestMaxEndpoints: with more peers than connections the idle ones give way; a peer that has no
// place for more says so.
func TestMaxEndpoints(t *testing.T) {
	for _, store := range []string{config.StoreSIEVE, config.StoreFIFO} {
		cfg, _ := fakes(t, 1)
		client := launch(t, func() *Config {
			c := cfg()
			c.MaxEndpoints, c.EndpointStore = 2, store
			return c
		}())
		buf := own(t, client, 1, 64)
		for round := range 2 {
			for i := range 4 {
				server := launch(t, cfg())
				_, key := share(t, server, 1, 64)
				p, ids := reach(t, client, server.Endpoint(), key)
				fine(t, p, transport.Op{ID: uint64(10*round + i), Kind: transport.Read, Local: buf, Remote: ids[0]})
				require.LessOrEqual(t, client.Stats().ConnectionsOut, 2)
			}
		}
	}
	cfg, _ := fakes(t, 1)
	small := cfg()
	small.MaxEndpoints = 1
	server := launch(t, small)
	_, key := share(t, server, 1, 64)
	for i := range 2 {
		client := launch(t, cfg())
		buf := own(t, client, 1, 64)
		p, ids := reach(t, client, server.Endpoint(), key)
		got := run(t, p, transport.Op{ID: 1, Kind: transport.Read, Local: buf, Remote: ids[0]})[1]
		if i == 0 {
			require.Equal(t, transport.OK, got.Status)
			continue
		}
		require.Equal(t, errs.ClassTransientPeer, got.Class(), "%v", got.Err)
		require.ErrorContains(t, got.Err, "as many connections as it may")
	}
}

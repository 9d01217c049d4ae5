package store_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/boottime"
	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// TestClientsReportPeers: what a client without memory saw of a node reaches the master with
// the next ping, and there are no pings while there is nothing to say.
func TestClientsReportPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, l := newLedgerPool(t)
		a := p.member("a:1", memberOptions{segments: []uint64{segment}})
		c := p.member("c:1", memberOptions{})
		var pings atomic.Int32
		p.master.setHook(func(k call) error {
			if k.name == "Ping" {
				pings.Add(1)
			}
			return nil
		})
		c.wire.SetHook(func(memtransport.Event) memtransport.Fault { return memtransport.Fault{Delay: 10 * time.Millisecond} })
		for i := range 4 {
			require.NoError(t, c.Put(t.Context(), fmt.Sprint("k", i), content("k", 1000), one))
		}
		_, err := c.Get(t.Context(), "k0")
		require.NoError(t, err)
		require.NoError(t, a.Put(t.Context(), "own", content("own", 1000), one), "a copy within the process is no transfer's news")
		time.Sleep(2 * time.Second)
		r := l.report("a:1")
		require.Equal(t, uint32(5), r.Done)
		require.Zero(t, r.Failed)
		require.Equal(t, uint64(5000), r.Bytes)
		require.Equal(t, 50*time.Millisecond, r.Busy)

		a.stop()
		pings.Store(0)
		time.Sleep(time.Minute)
		require.InDelta(t, 60, pings.Load(), 2, "a client that puts is alive, and has nothing else to say")
		c.wire.SetHook(func(memtransport.Event) memtransport.Fault {
			return memtransport.Fault{Err: errs.WithClass(errs.ClassTransientPeer, "test", errCut)}
		})
	})
}

// TestWhoIsToBlame: failures count against a node only where they are its own.
func TestWhoIsToBlame(t *testing.T) {
	for name, c := range map[string]struct {
		fault   memtransport.Fault
		timeout time.Duration
		failed  uint32
		lease   time.Duration // 0 is the default
	}{
		// The read has no other copy, so it tries for a second.
		"the peer fails":         {memtransport.Fault{Err: errs.WithClass(errs.ClassTransientPeer, "test", errCut)}, time.Minute, 7, 0},
		"nothing arrives":        {memtransport.Fault{Stall: true}, time.Minute, 1, 0},
		"this machine's device":  {memtransport.Fault{Err: errs.WithClass(errs.ClassLocalDevice, "test", errCut)}, time.Minute, 0, 0},
		"the request is wrong":   {memtransport.Fault{Err: errs.New(errs.InvalidParams, "test", "no")}, time.Minute, 0, 0},
		"the caller has no time": {memtransport.Fault{Stall: true}, 100 * time.Millisecond, 0, 0},
		"the lease is short":     {memtransport.Fault{Stall: true}, time.Minute, 1, 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, l := newLedgerPool(t)
				if c.lease > 0 {
					l.lease = c.lease
				}
				p.member("a:1", memberOptions{segments: []uint64{segment}})
				w := p.member("w:1", memberOptions{})
				r := p.member("r:1", memberOptions{})
				require.NoError(t, w.Put(t.Context(), "k", content("k", 1000), one))
				r.wire.SetHook(func(memtransport.Event) memtransport.Fault { return c.fault })
				ctx, cancel := context.WithTimeout(t.Context(), c.timeout)
				defer cancel()
				_, err := r.Get(ctx, "k")
				require.Error(t, err)
				time.Sleep(5 * time.Second)
				require.Equal(t, c.failed, l.report("a:1").Failed)
			})
		})
	}
}

// TestFailingEndpointIsAvoided: of two copies the one on a node that failed is skipped for
// a while, and has its share of the reads again some time after the node is back. A sleep of the machine before that
// changes nothing.
func TestFailingEndpointIsAvoided(t *testing.T) {
	boottime.Pretend(time.Hour)
	synctest.Test(t, func(t *testing.T) {
		p, _ := newLedgerPool(t)
		p.member("a:1", memberOptions{segments: []uint64{segment}})
		p.member("b:1", memberOptions{segments: []uint64{segment}})
		c := p.member("c:1", memberOptions{})
		require.NoError(t, c.Put(t.Context(), "k", content("k", 1000), two()))
		reads := map[string]int{}
		broken := true
		c.wire.SetHook(func(e memtransport.Event) memtransport.Fault {
			if e.Kind == transport.Read {
				reads[e.To]++
			}
			if broken && e.To == "a:1" {
				return memtransport.Fault{Err: errs.WithClass(errs.ClassTransientPeer, "test", errCut)}
			}
			return memtransport.Fault{}
		})
		many := func(n int) {
			clear(reads)
			for range n {
				_, err := c.Get(t.Context(), "k")
				require.NoError(t, err)
				time.Sleep(time.Millisecond)
			}
		}
		many(200)
		require.LessOrEqual(t, reads["a:1"], 8, "a few tries, each seen by the engine and its retries")
		require.LessOrEqual(t, c.count(t, "mooncake_client_replica_failovers_total"), 3, "and all other reads went elsewhere at first")
		require.GreaterOrEqual(t, reads["b:1"], 200)
		broken = false
		time.Sleep(5 * time.Minute)
		many(400)
		require.Greater(t, reads["a:1"], 100, "both have their share again")
		require.Greater(t, reads["b:1"], 100)
	})
}

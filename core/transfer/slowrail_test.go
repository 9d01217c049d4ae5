package transfer_test

import (
	"bytes"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/transport"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/transfer"
)

// TestSlowRailStaysBusy: a request over a slow link with distance is cut so that the link does not
// stand idle between its slices, whether its speed was known before or is found out meanwhile. The
// hook is a link of 300 kB a second with round trips of a second.
func TestSlowRailStaysBusy(t *testing.T) {
	for name, known := range map[string]bool{"known": true, "found out": false} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { slowRail(t, known) }) })
	}
}

func slowRail(t *testing.T, known bool) {
	const speed, trip, size = 300e3, time.Second, 16 << 20
	w := newWorld(t, "tcp")
	staging, err := memory.NewPool(make([]byte, 2*size))
	require.NoError(t, err)
	defaults := func(c *transfer.Config, d *transfer.Deps) {
		c.SliceSize, c.Window = transfer.DefaultConfig().SliceSize, transfer.DefaultConfig().Window
		d.Carriers[0].Stalls = true
		if !known {
			d.Carriers[0].LocalAny, d.Staging = false, staging
		}
	}
	a, b := w.node("a", []string{"tcp"}, 0, defaults), w.node("b", []string{"tcp"}, size)
	var mu sync.Mutex
	var free time.Time
	a.wires["tcp"].SetHook(func(e memtransport.Event) memtransport.Fault {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); free.Before(now) {
			free = now
		}
		free = free.Add(time.Duration(float64(e.Len) / speed * 1e9))
		return memtransport.Fault{Delay: time.Until(free) + trip}
	})
	if known {
		require.NoError(t, a.move(transport.Read, b, 0, make([]byte, 100_000)))
	}
	copy(b.mem, pattern(size, 7))
	got := make([]byte, size)
	start := time.Now()
	require.NoError(t, a.move(transport.Read, b, 0, got))
	require.InEpsilon(t, size/speed, time.Since(start).Seconds(), 0.1)
	require.True(t, bytes.Equal(b.mem, got))
	a.stop(t)
	b.stop(t)
	require.Zero(t, staging.Used())
}

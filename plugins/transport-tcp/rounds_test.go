package tcp

import (
	"context"
	"os"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/socket"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// held counts what a leak would leave behind.
type held struct{ descriptors, goroutines int }

func holding(t testing.TB) held {
	l, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc")
	}
	return held{len(l), runtime.NumGoroutine()}
}

// TestTenThousandRounds: connecting, moving bytes and disconnecting leaves nothing behind,
// on either side, whichever protocol is spoken, and neither does leaving early.
func TestTenThousandRounds(t *testing.T) {
	rounds, at := 10_000, 8
	if socket.RaceBuild || testing.Short() {
		rounds = 500 // What leaks once a round shows as well.
	}
	for name, upstream := range map[string]int{"ours": 0, "upstream version 1": 1, "upstream version 2": 2} {
		t.Run(name, func(t *testing.T) {
			r := newPair(t, 4096, single)
			if upstream > 0 {
				r.dialUpstream(t, upstream, r.server.Segment().DataPort)
			}
			ep := transport.Endpoint{Blob: r.path.peer.Encode(), Incarnation: r.path.peer.Incarnation}
			before := holding(t)
			var wg sync.WaitGroup
			for w := range at {
				wg.Go(func() {
					buf := make([]byte, 64)
					for i := range rounds / at {
						if !round(t, r, ep, buf, i%16 == w) {
							return
						}
					}
				})
			}
			wg.Wait()
			until(t, "the server closed its ends", func() bool { return r.server.Stats().ConnectionsIn == 0 })
			until(t, "goroutines and descriptors are back", func() bool {
				now := holding(t)
				return now.descriptors <= before.descriptors && now.goroutines <= before.goroutines
			})
			s := r.client.Stats()
			require.Zero(t, s.ConnectionsOut)
			require.LessOrEqual(t, s.Dials, uint64(rounds), "one connection a round")
			require.GreaterOrEqual(t, s.OpsOK, uint64(rounds*7/8))
			r.server.mu.Lock()
			defer r.server.mu.Unlock()
			require.Empty(t, r.server.perPeer)
			require.Zero(t, r.server.greeting)
		})
	}
}

// round dials, reads and closes; hasty closes without waiting for the answer.
func round(t *testing.T, r *pair, ep transport.Endpoint, buf []byte, hasty bool) bool {
	ctx := context.Background()
	p, err := r.client.Dial(ctx, ep)
	if err != nil {
		t.Error(err)
		return false
	}
	id, err := p.Import(ctx, r.key)
	if err == nil {
		_, err = p.Submit([]transport.Op{{ID: 1, Kind: transport.Read, Local: buf, Remote: id}})
	}
	dst := make([]transport.Completion, 1)
	if err == nil && !hasty {
		_, err = p.Reap(ctx, dst)
		if err == nil {
			err = dst[0].Err
		}
	}
	if err != nil {
		t.Error(err)
	}
	if closed := p.Close(ctx); closed != nil {
		t.Error(closed)
		return false
	}
	return err == nil
}

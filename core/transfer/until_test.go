package transfer_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// TestUntil: a request goes on as long as its time is extended. When that ends, the path of an operation that
// is still in flight is closed, and its bytes do not arrive later.
func TestUntil(t *testing.T) {
	for name, extended := range map[string]bool{"extended": true, "over": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "tcp")
				a, b := w.node("a", []string{"tcp"}, 0), w.node("b", []string{"tcp"}, 1<<20)
				a.wires["tcp"].SetHook(func(memtransport.Event) memtransport.Fault {
					return memtransport.Fault{Delay: 4 * time.Second, Late: true} // Less than it takes to be silent.
				})
				end := time.Now().Add(time.Second)
				until := func() time.Time {
					if extended {
						return time.Now().Add(time.Second)
					}
					return end
				}
				res := a.Transfer(t.Context(), []transfer.Request{{Kind: transport.Write, Local: pattern(1000, 1), Peer: "b", Addr: b.base, Until: until}})
				if extended {
					require.NoError(t, res[0].Err)
				} else {
					require.ErrorIs(t, res[0].Err, transfer.ErrLapsed)
					time.Sleep(time.Minute)
					require.Equal(t, make([]byte, 1000), b.mem[:1000])
					res = a.Transfer(t.Context(), []transfer.Request{{Kind: transport.Write, Local: pattern(1000, 1), Peer: "b", Addr: b.base, Until: until}})
					require.ErrorIs(t, res[0].Err, transfer.ErrLapsed, "nothing begins any more")
				}
				for _, n := range []*node{a, b} {
					n.stop(t)
				}
			})
		})
	}
}

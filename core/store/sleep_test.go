package store_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/boottime"
	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// TestMachineSleepsInRead: the lease ends meanwhile, although no clock of the process says so. The bytes
// may belong to another object by now, so the client asks again.
func TestMachineSleepsInRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, leased)
		p.member("a:1", memberOptions{segments: []uint64{segment}})
		r := p.member("r:1", memberOptions{})
		require.NoError(t, r.Put(t.Context(), "k", content("k", 5000), one))
		reads := 0
		r.wire.SetHook(func(e memtransport.Event) memtransport.Fault {
			if e.Kind != transport.Read {
				return memtransport.Fault{}
			}
			if reads++; reads == 1 {
				go func() {
					_ = r.Upsert(context.Background(), "k", content("other", 5000), one)
					boottime.Pretend(leaseTTL)
				}()
				return memtransport.Fault{Delay: leaseTTL / 10}
			}
			return memtransport.Fault{}
		})
		got, err := r.Get(t.Context(), "k")
		require.NoError(t, err)
		require.Equal(t, content("other", 5000), got)
		require.Equal(t, 2, reads)
		require.Equal(t, 1, r.count(t, "mooncake_client_leases_expired_total"))
	})
}

// TestMachineSleepsInSession: the session has no lease when the machine wakes up, and gets one again as
// soon as it asks for it.
func TestMachineSleepsInSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, leased)
		p.member("a:1", memberOptions{segments: []uint64{segment}})
		c := p.member("c:1", memberOptions{})
		require.NoError(t, c.Put(t.Context(), "k", []byte("value"), one))
		require.NoError(t, c.StartGets(t.Context(), []string{"k"})[0])
		_, err := getPiece(t, c, "k", 0)
		require.NoError(t, err)
		synctest.Wait() // The session renews nothing any more for now.
		boottime.Pretend(leaseTTL)
		_, err = getPiece(t, c, "k", 0)
		require.True(t, errs.Is(err, errs.LeaseExpired), "%v", err)
		time.Sleep(leaseTTL / 2)
		b, err := getPiece(t, c, "k", 0)
		require.NoError(t, err)
		require.Equal(t, byte('v'), b)
	})
}

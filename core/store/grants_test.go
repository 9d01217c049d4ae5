package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
)

// TestAGrantThatIsOver: when a node says that the time of a grant is over, the client asks the master for another one.
func TestAGrantThatIsOver(t *testing.T) {
	for name, over := range map[string]int{"once": 1, "always": 1 << 30} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, nil)
			p.member("a:1", memberOptions{segments: []uint64{1 << 20}})
			c := p.member("c:1", memberOptions{})
			require.NoError(t, c.Put(t.Context(), "k", content("k", 5000), one))
			reads := 0
			c.wire.SetHook(func(e memtransport.Event) memtransport.Fault {
				if e.Kind != transport.Read {
					return memtransport.Fault{}
				}
				if reads++; reads > over {
					return memtransport.Fault{}
				}
				return memtransport.Fault{Err: transportkit.GrantOver.Error("a:1")}
			})
			got, err := c.Get(t.Context(), "k")
			if over > 1 {
				require.True(t, errs.Is(err, errs.LeaseExpired), "%v", err)
				require.Equal(t, reads, c.count(t, "mooncake_client_leases_expired_total"))
				return
			}
			require.NoError(t, err)
			require.Equal(t, content("k", 5000), got)
			require.Equal(t, 2, reads)
		})
	}
}

// TestAGrantToWriteThatIsOver: a master took over between the start of a put and its write. The client starts the put again.
func TestAGrantToWriteThatIsOver(t *testing.T) {
	for name, over := range map[string]int{"once": 1, "always": 1 << 30} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, nil)
			p.member("a:1", memberOptions{segments: []uint64{1 << 20}})
			c := p.member("c:1", memberOptions{})
			writes := 0
			c.wire.SetHook(func(e memtransport.Event) memtransport.Fault {
				if writes++; e.Kind == transport.Write && writes <= over {
					return memtransport.Fault{Err: transportkit.GrantOver.Error("a:1")}
				}
				return memtransport.Fault{}
			})
			err := c.Put(t.Context(), "k", content("k", 5000), one)
			if over > 1 {
				require.Error(t, err)
				require.Less(t, writes, 10, "it gives up")
				there, err := c.Exist(t.Context(), "k")
				require.NoError(t, err)
				require.False(t, there)
				return
			}
			require.NoError(t, err)
			require.Equal(t, 2, writes)
			got, err := c.Get(t.Context(), "k")
			require.NoError(t, err)
			require.Equal(t, content("k", 5000), got)
		})
	}
}

// TestWhatTheWriterMayNotRead: a grant to write allows no reads. A put in ranges of which one was written twice then ends without checksums.
func TestWhatTheWriterMayNotRead(t *testing.T) {
	p := newPool(t, nil)
	p.member("a:1", memberOptions{segments: []uint64{1 << 20}})
	c := p.member("c:1", memberOptions{})
	ctx, value := t.Context(), content("k", 700_000)
	require.NoError(t, c.StartPuts(ctx, []string{"k"}, []uint64{700_000}, one, nil)[0])
	for _, w := range []store.Ranges{write("k", 1, value[1:]), write("k", 0, value[:400_000])} {
		require.NoError(t, c.PutRanges(ctx, []store.Ranges{w})[0].Err)
	}
	c.wire.SetHook(func(e memtransport.Event) memtransport.Fault {
		if e.Kind != transport.Read {
			return memtransport.Fault{}
		}
		return memtransport.Fault{Err: transportkit.GrantWrong.Error("a:1")}
	})
	require.NoError(t, c.EndPuts(ctx, []string{"k"})[0])
	c.wire.SetHook(nil)
	require.Equal(t, model.ChecksumNone, c.Query(ctx, []string{"k"})[0].Value.Checksum.Kind)
	got, err := c.Get(ctx, "k")
	require.NoError(t, err)
	require.Equal(t, value, got)
}

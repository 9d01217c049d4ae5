package transfer_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// A peer that failed is backed off for an hour here, unless Revive ends that.
func TestReviveEndsTheTimeForWhichAPeerIsLeftAlone(t *testing.T) {
	w := newWorld(t, "net")
	patient := func(c *transfer.Config, _ *transfer.Deps) { c.CoolDown, c.MaxCoolDown = time.Hour, time.Hour }
	near := w.node("near", []string{"net"}, 0, patient)
	near.Revive("far") // Nothing is known of it.
	ask := func(addr uint64) error {
		return near.Transfer(t.Context(), []transfer.Request{{Kind: transport.Write, Local: []byte("hello"), Peer: "far", Addr: addr}})[0].Err
	}
	require.Error(t, ask(1), "it is not there")
	far := w.node("far", []string{"net"}, 4096)
	require.ErrorContains(t, ask(far.base), "backed off")
	near.Revive("far")
	require.NoError(t, ask(far.base))
	require.Equal(t, "hello", string(far.mem[:5]))
}

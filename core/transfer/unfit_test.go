package transfer_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// picky refuses memory with an error.
type picky struct {
	transport.Transport
	err error
}

func (p picky) Register(context.Context, transport.Region) (transport.Key, error) { return nil, p.err }

// TestMemoryThatATransportDoesNotSupport: a transport that cannot take such memory is no
// reason to worry, one that failed is.
func TestMemoryThatATransportDoesNotSupport(t *testing.T) {
	for code, warns := range map[errs.Code]bool{errs.NotSupported: false, errs.Internal: true} {
		var log bytes.Buffer
		w := newWorld(t, "shm", "tcp")
		n := w.node("a", []string{"shm", "tcp"}, 0, func(_ *transfer.Config, d *transfer.Deps) {
			d.Carriers[0].Transport = picky{d.Carriers[0].Transport, errs.New(code, "picky", "not this")}
			d.Log = slog.New(slog.NewTextHandler(&log, nil))
		})
		id, err := n.Register(t.Context(), transfer.Memory{Bytes: make([]byte, 64), FD: -1, Access: transport.AccessRemote})
		require.NoError(t, err)
		require.NoError(t, n.Deregister(t.Context(), id))
		require.Equal(t, warns, bytes.Contains(log.Bytes(), []byte("not registered with every transport")), "%s: %s", code, log.String())
	}
}

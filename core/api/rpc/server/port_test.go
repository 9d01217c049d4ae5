package server

import (
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/api/upstream/calls"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/store"
)

// ready is a master of which only Ready is called.
type ready struct {
	store.Master
	turnedAway, connections atomic.Int32
}

func (m *ready) Ready(context.Context) (string, error) { return "1.2.3", nil }
func (m *ready) ObserveRPC(string, time.Duration)      {}
func (m *ready) ObserveForeign(string)                 { m.turnedAway.Add(1) }
func (m *ready) ObserveUpstreamConnections(more int)   { m.connections.Add(int32(more)) }
func (m *ready) ObserveRequestMemory(int64)            {}
func (m *ready) ObserveRequestWait()                   {}
func (m *ready) ObserveConnClosed(string)              {}
func (m *ready) Quiesce(context.Context)               {}

// TestUpstreamClients: the setting serves upstream's clients at the RPC port, and never at the port of a
// master that does not lead.
func TestUpstreamClients(t *testing.T) {
	request := make([]byte, 20)
	request[0] = 0x15
	binary.LittleEndian.PutUint32(request[8:], calls.ServiceReady.ID())
	for name, c := range map[string]struct {
		make    func(config.Master, Observer) *Port
		setting bool
		served  bool
	}{
		"on": {func(c config.Master, m Observer) *Port {
			return NewPort(c, nil, m, slog.New(slog.DiscardHandler), func(error) {})
		}, true, true},
		"off": {func(c config.Master, m Observer) *Port {
			return NewPort(c, nil, m, slog.New(slog.DiscardHandler), func(error) {})
		}, false, false},
		"follow": {func(c config.Master, m Observer) *Port {
			return NewFollowPort(c, nil, m, slog.New(slog.DiscardHandler), func(error) {})
		}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := &ready{}
			p := c.make(config.Master{RPCAddress: "127.0.0.1", RPCEnableTCPNoDelay: true, UpstreamClients: c.setting}, m)
			require.NoError(t, p.Open(t.Context()))
			defer p.Close(context.Background())
			conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(p.Number())))
			require.NoError(t, err)
			defer conn.Close()
			require.NoError(t, conn.SetDeadline(time.Now().Add(30*time.Second)))
			_, err = conn.Write(request)
			require.NoError(t, err)
			head := make([]byte, 16)
			_, err = io.ReadFull(conn, head)
			require.NoError(t, err)
			body := make([]byte, binary.LittleEndian.Uint32(head[8:]))
			_, err = io.ReadFull(conn, body)
			require.NoError(t, err)
			if !c.served {
				require.NotZero(t, head[2])
				require.Contains(t, string(body), "whose upstream_clients is off")
				require.EqualValues(t, 1, m.turnedAway.Load())
				return
			}
			require.Zero(t, head[2])
			var version calls.Expected[string]
			require.NoError(t, calls.ServiceReady.DecodeResponse(body, calls.V13, &version))
			require.Equal(t, "2.0.0", version.Value)
			require.EqualValues(t, 1, m.connections.Load())
		})
	}
}

package interop

import (
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// newEngine is a node with a transfer engine on top, which registers and publishes itself.
func newEngine(t testing.TB, size int, config string) (*node, *transfer.Engine) {
	n := newBare(t, config)
	e, err := transfer.New(transfer.DefaultConfig(), transfer.Deps{
		Directory: n.dir, Carriers: []transfer.Carrier{{Name: "tcp", Transport: n.tr, LocalAny: true}}, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close(context.Background())) })
	n.dir.Daemon().SetNotifyHandler(e.HandleNotify)
	n.dir.Daemon().SetConnectionHandler(e.HandleConnection)
	n.mem = make([]byte, size)
	_, err = e.Register(t.Context(), transfer.Memory{Bytes: n.mem, FD: -1, Access: transport.AccessRemote})
	require.NoError(t, err)
	require.NoError(t, e.Publish(t.Context()))
	return n, e
}

// TestEngines: the whole of ours against the whole of theirs, each as initiator: transfer,
// notification after it, probe.
func TestEngines(t *testing.T) {
	for _, s := range speakers {
		t.Run(s.name, func(t *testing.T) {
			u := newUpstream(t, span, s.env)
			n, e := newEngine(t, span, s.config)
			for i, part := range parts {
				local := n.mem[part.offset:][:part.size]
				want := u.fill(t, part.offset, part.size, i)
				require.Zero(t, u.move(t, "write", n.name(), part.offset, n.addr(part.offset), part.size))
				settle(t, s.env, u, n, part.offset, part.size, want)
				require.Equal(t, want, digest(local), "%d bytes at %d written by them", part.size, part.offset)

				want = u.fill(t, part.offset, part.size, i+100)
				request := transfer.Request{Kind: transport.Read, Local: local, Peer: u.name, Addr: u.addr + uint64(part.offset)}
				require.NoError(t, e.Transfer(t.Context(), []transfer.Request{request})[0].Err)
				require.Equal(t, want, digest(local), "%d bytes at %d read by us", part.size, part.offset)

				random(local, i)
				want = digest(local)
				request.Kind = transport.Write
				require.NoError(t, e.Transfer(t.Context(), []transfer.Request{request})[0].Err)
				require.Equal(t, want, u.digest(t, part.offset, part.size), "%d bytes at %d written by us", part.size, part.offset)
			}
			bad := transfer.Request{Kind: transport.Read, Local: n.mem[:8], Peer: u.name, Addr: 8}
			require.Error(t, e.Transfer(t.Context(), []transfer.Request{bad})[0].Err, "no process has this address")

			b, err := e.NewBatch(1)
			require.NoError(t, err)
			random(n.mem[:4096], 7)
			request := transfer.Request{Kind: transport.Write, Local: n.mem[:4096], Peer: u.name, Addr: u.addr}
			require.NoError(t, b.SubmitNotify([]transfer.Request{request}, metadata.Notification{Name: "us", Message: "written"})[0].Err)
			require.NoError(t, b.Wait(t.Context()))
			require.Equal(t, [][2]string{{"us", "written"}}, u.call(t, map[string]any{"call": "notes"}).Notes)
			require.Equal(t, digest(n.mem[:4096]), u.digest(t, 0, 4096))
			require.NoError(t, b.Free())

			require.Zero(t, u.call(t, map[string]any{
				"call": "move", "op": "read", "target": n.name(), "offset": 0, "addr": n.addr(0), "size": 64, "notify": []string{"them", "read"},
			}).RC)
			require.Equal(t, []metadata.Notification{{Name: "them", Message: "read"}}, e.Notifications())
			require.NoError(t, e.Probe(t.Context(), u.name))
			require.Zero(t, u.call(t, map[string]any{"call": "probe", "target": n.name()}).RC)
			u.kill()
			require.Error(t, e.Probe(t.Context(), u.name))
			request.Deadline = soon()
			require.Error(t, e.Transfer(t.Context(), []transfer.Request{request})[0].Err)
		})
	}
}

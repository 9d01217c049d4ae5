package interop

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/metadata/p2p"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// The devices of the VM. They reach each other and themselves.
const theirDevice, ourDevice = "rxe0", "rxe1"

// requireDevices skips the test outside of the VM.
func requireDevices(t testing.TB) {
	if os.Getenv("RDMA_VM") != "1" {
		t.Skip("needs RDMA devices: RDMA_VM is not set; run it in the VM of test/rdma-vm, see doc.go")
	}
}

// newUpstreamRDMA starts a node of upstream over RDMA; env adds to its environment.
func newUpstreamRDMA(t testing.TB, size int, devices string, env ...string) *upstream {
	requireDevices(t)
	return startUpstream(t, map[string]any{"call": "start", "host": "127.0.0.1", "size": size, "protocol": "rdma", "devices": devices}, env)
}

// rdmaNode is one of ours: the whole transfer engine over RDMA, with one registered region.
type rdmaNode struct {
	*transfer.Engine
	dir  *handshakes
	mem  []byte
	stop func()
}

// rdmaOptions are what a node of ours is to be.
type rdmaOptions struct {
	// config is JSON over the defaults of the transport, "" for our device alone.
	config string
	// oneRound takes the second round of the handshake out of all messages, in either
	// direction.
	oneRound bool
	// port is that of its name, 0 for any.
	port int
}

// newRDMANode starts one with a region of size bytes.
func newRDMANode(t testing.TB, size int, o rdmaOptions) *rdmaNode {
	dir, err := p2p.Open(t.Context(), p2p.Options{LocalName: "127.0.0.1", Daemon: p2p.DaemonOptions{BindHost: "127.0.0.1", Port: o.port}})
	require.NoError(t, err)
	n := &rdmaNode{dir: &handshakes{Directory: dir, oneRound: o.oneRound}, mem: make([]byte, size)}
	if o.config == "" {
		o.config = `{"host":"127.0.0.1","devices":["` + ourDevice + `"]}`
	}
	tr := startTransport(t, "transport/rdma", o.config)
	n.Engine, err = transfer.New(transfer.DefaultConfig(), transfer.Deps{
		Directory: n.dir, Carriers: []transfer.Carrier{{Name: "rdma", Transport: tr}},
		Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	require.NoError(t, err)
	n.stop = sync.OnceFunc(func() {
		require.NoError(t, n.Close(context.Background()))
		require.NoError(t, tr.Stop(context.Background()))
		require.NoError(t, dir.Close(context.Background()))
	})
	t.Cleanup(n.stop)
	dir.Daemon().SetNotifyHandler(n.HandleNotify)
	dir.Daemon().SetConnectionHandler(n.dir.between("to us", n.HandleConnection))
	_, err = n.Register(t.Context(), transfer.Memory{Bytes: n.mem, FD: -1, Access: transport.AccessRemote})
	require.NoError(t, err)
	require.NoError(t, n.Publish(t.Context()))
	return n
}

func (n *rdmaNode) name() string { return n.dir.LocalName() }

func (n *rdmaNode) addr(offset int) uint64 {
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(n.mem)))) + uint64(offset)
}

// request is one about the same part of both memories.
func (n *rdmaNode) request(kind transport.OpKind, u *upstream, offset, size int) transfer.Request {
	return transfer.Request{Kind: kind, Local: n.mem[offset:][:size], Peer: u.name, Addr: u.addr + uint64(offset)}
}

// do carries requests out, which have to succeed.
func (n *rdmaNode) do(t testing.TB, requests ...transfer.Request) {
	t.Helper()
	for i, r := range n.Transfer(t.Context(), requests) {
		require.NoError(t, r.Err, "request %d", i)
	}
}

// handshakes is a directory that stands between the two sides when connections are set up:
// it notes the messages, and may change them.
type handshakes struct {
	*p2p.Directory
	oneRound bool
	// relay is the address where the handshakes of ours for the peer go, once there is one.
	relay metadata.Address
	// cross, where it is set, holds the first message of each side until there is one of
	// both.
	cross map[string]chan struct{}

	mu   sync.Mutex
	seen []setup
}

// setup is a message, as it was sent, and its answer, as it arrived.
type setup struct{ side, request, answer string }

// message is what the tests look at in one.
type message struct {
	Local      string   `json:"local_nic_path"`
	Peer       string   `json:"peer_nic_path"`
	QueuePairs []uint32 `json:"qp_num"`
	Ready      *bool    `json:"ready_ack"`
	Reply      string   `json:"reply_msg"`
}

func (s setup) parse(t testing.TB) (request, answer message) {
	require.NoError(t, json.Unmarshal([]byte(s.request), &request))
	require.NoError(t, json.Unmarshal([]byte(s.answer), &answer))
	return request, answer
}

// Address implements metadata.Peers. The transport connects there, and nothing else is
// asked for there.
func (h *handshakes) Address(ctx context.Context, name string) (metadata.Address, error) {
	if h.relay.Port != 0 {
		return h.relay, nil
	}
	return h.Directory.Address(ctx, name)
}

// relayTo has the handshakes with a node go through this side's hands.
func (h *handshakes) relayTo(t testing.TB, u *upstream) {
	at, err := h.Directory.Address(t.Context(), u.name)
	require.NoError(t, err)
	dir, err := p2p.Open(t.Context(), p2p.Options{LocalName: "127.0.0.1", Daemon: p2p.DaemonOptions{BindHost: "127.0.0.1"}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, dir.Close(context.Background())) })
	dir.Daemon().SetConnectionHandler(h.between("to them", func(ctx context.Context, request []byte) ([]byte, error) {
		return p2p.Dialer{}.Exchange(ctx, at, p2p.TypeConnection, request)
	}))
	h.relay, err = h.Directory.Address(t.Context(), dir.LocalName())
	require.NoError(t, err)
}

func (h *handshakes) between(side string, serve p2p.ConnectionHandler) p2p.ConnectionHandler {
	var first sync.Once
	return func(ctx context.Context, request []byte) ([]byte, error) {
		first.Do(func() {
			if h.cross == nil {
				return
			}
			close(h.cross[side])
			for _, there := range h.cross {
				select {
				case <-there:
				case <-ctx.Done():
				}
			}
		})
		answer, err := serve(ctx, h.bend(request))
		if err == nil {
			answer = h.bend(answer)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.seen = append(h.seen, setup{side, string(request), string(answer)})
		return answer, err
	}
}

// bend takes the second round out of a message.
func (h *handshakes) bend(message []byte) []byte {
	var m map[string]json.RawMessage
	if !h.oneRound || json.Unmarshal(message, &m) != nil || m["ready_ack"] == nil {
		return message
	}
	delete(m, "ready_ack")
	message, err := json.Marshal(m)
	if err != nil {
		panic(err) // It was JSON before.
	}
	return message
}

// messages returns what was seen so far.
func (h *handshakes) messages() []setup {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]setup(nil), h.seen...)
}

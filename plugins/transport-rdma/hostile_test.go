package rdma

import (
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/blob"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/handshake"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// say sends bytes to the bootstrap listener and returns the answer.
func say(t testing.TB, n *node, text string) string {
	nc, err := net.Dial("tcp", n.addrs[0])
	require.NoError(t, err)
	defer nc.Close()
	require.NoError(t, nc.SetDeadline(time.Now().Add(short)))
	_, err = io.WriteString(nc, text)
	require.NoError(t, err)
	_ = nc.(*net.TCPConn).CloseWrite() // The other side may have closed already.
	answer, _ := io.ReadAll(nc)        // A reset is an answer too.
	return string(answer)
}

func frame(kind byte, text string) string {
	var b strings.Builder
	_ = handshake.WriteFrame(&b, kind, []byte(text))
	return b.String()
}

// TestStrangers: bytes that strangers send to the listener do no harm, and
// leaves nothing behind.
func TestStrangers(t *testing.T) {
	cfg, w := fakes(t, 1)
	c := newCouple(t, cfg, 4096)
	fine(t, c.p, c.read(1, 0, 64))
	before := w.Live(os.Getpid())["qp"]
	good := &handshake.Message{
		LocalPath: "a@fake0", PeerPath: "b@fake0", GID: c.server.devices[0].Address().Text, QueuePairs: []uint32{7},
		Own: &handshake.Own{Incarnation: c.server.env.Incarnation, MTU: 4096, PSN: []uint32{1}, Reads: 1},
	}
	text := func(change func(*handshake.Message)) string {
		m, o := *good, *good.Own
		m.Own = &o
		change(&m)
		b, err := m.Encode()
		require.NoError(t, err)
		return frame(handshake.TypeConnection, string(b))
	}
	for name, x := range map[string]struct{ say, want string }{
		"nothing":           {"", ""},
		"HTTP":              {"GET / HTTP/1.1\r\n\r\n", ""},
		"a huge length":     {"\xff\xff\xff\xff\xff\xff\xff\x7f", ""},
		"no JSON":           {frame(0, "{"), "null"},
		"metadata":          {frame(1, "{}"), "null"},
		"probe":             {frame(3, "null"), "null"},
		"upstream":          {text(func(m *handshake.Message) { m.Own = nil }), "null"},
		"stale":             {text(func(m *handshake.Message) { m.Own.Incarnation++ }), "another process answers"},
		"unknown device":    {text(func(m *handshake.Message) { m.PeerPath = "b@mlx5_0" }), "cannot be used"},
		"no path":           {text(func(m *handshake.Message) { m.PeerPath = "" }), "cannot be used"},
		"no queue pairs":    {text(func(m *handshake.Message) { m.QueuePairs, m.Own.PSN = nil, nil }), "incomplete"},
		"no packet numbers": {text(func(m *handshake.Message) { m.Own.PSN = nil }), "incomplete"},
		"no MTU":            {text(func(m *handshake.Message) { m.Own.MTU = 0 }), "incomplete"},
		"odd MTU":           {text(func(m *handshake.Message) { m.Own.MTU = 1500 }), "could not be connected"},
		"no address":        {text(func(m *handshake.Message) { m.GID = "" }), "incomplete"},
		"good, and gone":    {text(func(*handshake.Message) {}), `"qp_num":[`},
	} {
		require.Contains(t, say(t, c.server, x.say), x.want, name)
	}
	eventually(t, "queue pairs of strangers end", func() bool { return w.Live(os.Getpid())["qp"] == before })
	fine(t, c.p, c.read(2, 0, 64))
	require.EqualValues(t, 1, c.client.Stats().Dials)
	require.Positive(t, c.server.Stats().Foreign)
}

// TestFalseAnswer: a peer that answers nonsense costs an error with a class.
func TestFalseAnswer(t *testing.T) {
	cfg, _ := fakes(t, 1)
	c := newCouple(t, cfg, 4096)
	for name, answer := range map[string]string{
		"null": frame(0, "null"), "no JSON": frame(0, "{"), "empty": frame(0, "{}"), "cut off": "\x05\x00",
		"other queue pairs": frame(0, `{"qp_num":[1,2,3],"x_mooncake_go":{"psn":[1,2,3],"mtu":4096}}`),
		"unknown class":     frame(0, `{"reply_msg":"no","x_mooncake_go":{"class":99,"code":7}}`),
	} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		done := make(chan struct{})
		go func() {
			defer close(done)
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			defer nc.Close()
			_, _, _ = handshake.ReadFrame(nc, handshake.MaxFrame)
			_, _ = io.WriteString(nc, answer)
		}()
		e, err := blob.DecodeEndpoint(c.server.Endpoint().Blob)
		require.NoError(t, err)
		e.Addrs = []string{ln.Addr().String()}
		text, err := e.Encode()
		require.NoError(t, err)
		p, ids := reach(t, c.client, transport.Endpoint{Blob: text, Incarnation: e.Incarnation}, c.key)
		got := run(t, p, transport.Op{ID: 1, Kind: transport.Read, Local: c.buf[:64], Remote: ids[0]})[1]
		require.Equal(t, transport.Failed, got.Status, name)
		require.Contains(t, []errs.Class{errs.ClassTransientPeer, errs.ClassTransientPath}, got.Class(), "%s: %v", name, got.Err)
		require.NoError(t, ln.Close())
		<-done
	}
	fine(t, c.p, c.read(2, 0, 64))
}

// TestLocalMemory: only registered memory may be the local side.
func TestLocalMemory(t *testing.T) {
	cfg, _ := library(t, 1)
	c := newCouple(t, cfg, 4096)
	op := c.read(1, 0, 64)
	op.Local = make([]byte, 64)
	n, err := c.p.Submit([]transport.Op{op})
	require.Zero(t, n)
	require.Equal(t, errs.ClassPermanent, errs.ClassOf(err))
	require.ErrorContains(t, err, "not inside one registered region")
	fine(t, c.p, c.read(1, 4000, 96)) // Up to its very end.
	require.NoError(t, c.client.Deregister(within(t), 1))
	n, err = c.p.Submit([]transport.Op{c.read(2, 0, 64)})
	require.Zero(t, n)
	require.Equal(t, errs.InvalidParams, errs.CodeOf(err), "%v", err)
}

// FuzzAccept: whatever arrives at the handshake daemon is answered or refused.
func FuzzAccept(f *testing.F) {
	cfg, _ := fakes(f, 1)
	c := cfg()
	c.MaxEndpoints, c.MaxWR, c.CQDepth = 4, 4, 64
	n := launch(f, c)
	n.Join("alpha:1")
	f.Add([]byte(`{"local_nic_path":"beta:2@fake0","peer_nic_path":"alpha:1@fake0","qp_num":[7],"ready_ack":false,"local_gid":"` + n.devices[0].Address().Text + `"}`))
	f.Add([]byte(`{"local_nic_path":"beta:2@fake0","peer_nic_path":"alpha:1@fake0","qp_num":[7],"ready_ack":true}`))
	f.Add([]byte("null"))
	f.Fuzz(func(t *testing.T, request []byte) {
		answer, err := n.Accept(t.Context(), request)
		if err != nil {
			require.Negative(t, int(errs.CodeOf(err)))
			return
		}
		_, err = handshake.Decode(answer)
		require.NoError(t, err)
	})
}

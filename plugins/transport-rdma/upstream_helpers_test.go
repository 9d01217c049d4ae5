package rdma

import (
	"encoding/json"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/handshake"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// daemon answers handshakes for a node, as the program around it does for nodes of
// upstream. bend may change a message on its way in and out; nil drops it.
type daemon struct {
	n    *node
	addr *net.TCPAddr
	bend func(request bool, m *handshake.Message) *handshake.Message
}

func serveUpstream(t testing.TB, n *node, name string) *daemon {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	d := &daemon{n: n, addr: ln.Addr().(*net.TCPAddr), bend: func(_ bool, m *handshake.Message) *handshake.Message { return m }}
	n.Join(name)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { d.serve(t, nc) })
		}
	})
	t.Cleanup(func() { _ = ln.Close(); wg.Wait() })
	return d
}

func (d *daemon) serve(t testing.TB, nc net.Conn) {
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(short))
	kind, text, err := handshake.ReadFrame(nc, handshake.MaxFrame)
	if err != nil || kind != handshake.TypeConnection {
		t.Errorf("frame of type %d: %v", kind, err)
		return
	}
	pass := func(request bool, text []byte) []byte {
		m, err := handshake.Decode(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			return nil
		}
		if m = d.bend(request, m); m == nil {
			return nil
		}
		text, err = m.Encode()
		if err != nil {
			t.Error(err)
		}
		return text
	}
	if text = pass(true, text); text == nil {
		return
	}
	answer, err := d.n.Accept(t.Context(), text)
	if err != nil {
		answer = []byte("null")
	} else if answer = pass(false, answer); answer == nil {
		return
	}
	_ = handshake.WriteFrame(nc, kind, answer)
	_, _ = nc.Read(make([]byte, 1)) // The caller closes.
}

// segment returns what a peer reads about the node in the directory.
func (d *daemon) segment() transport.PeerSegment {
	s := transport.PeerSegment{Segment: d.n.Segment(), Name: d.n.label(), Host: "127.0.0.1", Port: d.addr.Port}
	s.Matrix = json.RawMessage("null")
	return s
}

// legacy is two nodes that see each other as nodes of upstream.
type legacy struct {
	a, b   *daemon
	ma, mb []byte
	pa, pb *path // a's path to b, and the reverse
	ra, rb transport.RemoteID
}

func newLegacy(t testing.TB, cfg func() *Config, size int) *legacy {
	l := &legacy{}
	na, nb := launch(t, cfg()), launch(t, cfg())
	l.a, l.b = serveUpstream(t, na, "alpha:1"), serveUpstream(t, nb, "beta:2")
	l.ma, _ = share(t, na, 1, size)
	l.mb, _ = share(t, nb, 1, size)
	l.pa, l.ra = l.a.dial(t, l.b.segment())
	l.pb, l.rb = l.b.dial(t, l.a.segment())
	return l
}

func (d *daemon) dial(t testing.TB, to transport.PeerSegment) (*path, transport.RemoteID) {
	ep, ks, err := d.n.Translate(to)
	require.NoError(t, err)
	p, ids := reach(t, d.n, ep, ks[0])
	return p, ids[0]
}

func (l *legacy) write(id uint64, at, n int) transport.Op {
	return transport.Op{ID: id, Kind: transport.Write, Local: l.ma[at:][:n], Remote: l.ra, Offset: uint64(at)}
}

func (l *legacy) writeBack(id uint64, at, n int) transport.Op {
	return transport.Op{ID: id, Kind: transport.Write, Local: l.mb[at:][:n], Remote: l.rb, Offset: uint64(at)}
}

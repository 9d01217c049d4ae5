package tcp

import (
	"bytes"
	"context"
	"encoding/hex"
	"io"
	"math"
	"net"
	"strconv"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/frame"
	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/upstream"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

func bufferOf(mem []byte) transport.Buffer {
	return transport.Buffer{Name: "x", Addr: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))), Length: uint64(len(mem))}
}

// upPair is newPair whose client sees the server as a node of upstream.
func upPair(t testing.TB, version, size int, change ...func(*Config)) *pair {
	r := newPair(t, size, change...)
	r.dialUpstream(t, version, r.server.Segment().DataPort)
	return r
}

// dialUpstream makes the path anew, to what listens on port.
func (r *pair) dialUpstream(t testing.TB, version, port int) {
	peer := transport.PeerSegment{Name: "peer", Host: "127.0.0.1", Port: 15000, Segment: transport.Segment{
		Protocol: "tcp", DataPort: port, DataVersion: version, Buffers: []transport.Buffer{bufferOf(r.mem)},
	}}
	ep, keys, err := r.client.Translate(peer)
	require.NoError(t, err)
	r.key = keys[0]
	r.dial(t, ep)
}

// recorded is what a node of upstream put on the wire, up to the address.
const (
	recordedWrite  = "40000000000000000000e066bd7f00008100000000000000"
	recordedRead   = "40000000000000000000e066bd7f00008000000000000000"
	recordedStatus = "000000005654434d"
	recordedAddr   = 0x7fbd66e00000
)

func unhex(t testing.TB, s string) []byte {
	b, err := hex.DecodeString(s)
	require.NoError(t, err)
	return b
}

func TestUpstreamRecordedFrames(t *testing.T) {
	for text, want := range map[string]upstream.Header{
		recordedWrite: {Size: 64, Addr: recordedAddr, Op: upstream.Write, V2: true},
		recordedRead:  {Size: 64, Addr: recordedAddr, Op: upstream.Read, V2: true},
	} {
		var h upstream.Header
		h.Decode(unhex(t, text))
		require.Equal(t, want, h)
		used := bytes.Repeat([]byte{0xff}, upstream.HeaderSize)
		require.Equal(t, text, hex.EncodeToString(h.Put(used)), "padding is 0 whatever was there")
	}
	b := unhex(t, recordedWrite)
	copy(b[17:], "padding")
	var h upstream.Header
	h.Decode(b)
	require.Equal(t, upstream.Header{Size: 64, Addr: recordedAddr, Op: upstream.Write, V2: true}, h, "padding is ignored")
	require.Equal(t, recordedStatus, hex.EncodeToString(upstream.PutStatus(make([]byte, 8), upstream.StatusOK)))
	require.Equal(t, "010000005654434d", hex.EncodeToString(upstream.PutStatus(make([]byte, 8), upstream.StatusRejected)))
	code, err := upstream.DecodeStatus(unhex(t, recordedStatus))
	require.NoError(t, err)
	require.EqualValues(t, upstream.StatusOK, code)
	_, err = upstream.DecodeStatus(make([]byte, 8))
	require.ErrorIs(t, err, frame.ErrFrame)
}

// TestUpstreamClientBytes: what goes out is what an initiator of upstream sends, byte for
// byte; in version 1 with a READ of the last byte after a WRITE.
func TestUpstreamClientBytes(t *testing.T) {
	payload := bytes.Repeat([]byte{7}, 64)
	v1 := func(text string) []byte {
		b := unhex(t, text)
		b[16] &^= upstream.Version2
		return b
	}
	last := (&upstream.Header{Size: 1, Addr: recordedAddr + 63}).Put(make([]byte, upstream.HeaderSize))
	for name, c := range map[string]struct {
		version      int
		kind         transport.OpKind
		want, answer []byte
	}{
		"write 2": {2, transport.Write, append(unhex(t, recordedWrite), payload...), unhex(t, recordedStatus)},
		"read 2":  {2, transport.Read, unhex(t, recordedRead), append(unhex(t, recordedStatus), payload...)},
		"write 1": {1, transport.Write, append(append(v1(recordedWrite), payload...), last...), payload[:1]},
		"read 1":  {1, transport.Read, v1(recordedRead), payload},
	} {
		t.Run(name, func(t *testing.T) {
			r := newPair(t, 64)
			peer := newScripted(t)
			ep, keys, err := r.client.Translate(transport.PeerSegment{Host: "127.0.0.1", Segment: transport.Segment{
				Protocol: "tcp", DataPort: peer.port(), DataVersion: c.version, Buffers: []transport.Buffer{{Addr: recordedAddr, Length: 64}},
			}})
			require.NoError(t, err)
			r.key = keys[0]
			r.dial(t, ep)
			got := make(chan []byte, 1)
			peer.serve(func(conn net.Conn) {
				b := make([]byte, len(c.want))
				_, _ = io.ReadFull(conn, b)
				got <- b
				_, _ = conn.Write(c.answer)
				_, _ = io.Copy(io.Discard, conn)
			})
			buf := make([]byte, 64)
			if c.kind == transport.Write {
				copy(buf, payload)
			}
			r.ok(t, transport.Op{ID: 1, Kind: c.kind, Local: buf, Remote: r.id})
			require.Equal(t, c.want, <-got)
			require.Equal(t, payload, buf)
		})
	}
}

func TestSegment(t *testing.T) {
	r := newPair(t, 4096)
	up := transport.Upstream(r.server)
	up.Join("10.0.0.1:15001")
	_, err := r.server.Register(context.Background(), transport.Region{ID: 2, Mem: make([]byte, 64), FD: -1})
	require.NoError(t, err)
	b := bufferOf(r.mem)
	b.Name = "10.0.0.1:15001"
	e, err := frame.DecodeEndpoint(r.server.Endpoint().Blob)
	require.NoError(t, err)
	_, port, _ := net.SplitHostPort(e.Addrs[0])
	s := up.Segment()
	require.Equal(t, port, strconv.Itoa(s.DataPort))
	require.Equal(t, transport.Segment{Protocol: "tcp", DataPort: s.DataPort, DataVersion: 2, Buffers: []transport.Buffer{b}}, s,
		"memory that is closed to peers is not published")
	_, err = up.Accept(context.Background(), []byte("{}"))
	require.True(t, errs.Is(err, errs.NotSupported))

	off := newPair(t, 64, func(c *Config) { c.Upstream = new(bool) })
	require.Equal(t, transport.Segment{Protocol: "tcp", DataVersion: 1}, off.server.Segment())
	_, _, err = off.server.Translate(transport.PeerSegment{Segment: s, Host: "h"})
	require.True(t, errs.Is(err, errs.NotSupported), "%v", err)
	require.ErrorContains(t, err, "upstream: true", "says what to do")
}

func TestTranslate(t *testing.T) {
	n := newNode(*loopback())
	good := func() transport.PeerSegment {
		return transport.PeerSegment{Name: "h:15001", Host: "h", Port: 15001, Segment: transport.Segment{
			Protocol: "tcp", DataPort: 16000, DataVersion: 2,
			Buffers: []transport.Buffer{{Addr: 4096, Length: 4096}, {Length: 1}, {Addr: 1}, {Addr: math.MaxUint64 - 3, Length: 4}, {Addr: math.MaxUint64 - 3, Length: 3}},
		}}
	}
	ep, keys, err := n.Translate(good())
	require.NoError(t, err)
	e, err := frame.DecodeEndpoint(ep.Blob)
	require.NoError(t, err)
	require.Equal(t, frame.Endpoint{Incarnation: ep.Incarnation, Addrs: []string{"h:16000"}, Upstream: 2}, e)
	require.Len(t, keys, 5)
	for i, present := range []bool{true, false, false, false, true} {
		require.Equal(t, present, keys[i] != nil, i)
	}
	again, _, err := n.Translate(good())
	require.NoError(t, err)
	require.Equal(t, ep, again)

	more := good()
	more.Buffers = more.Buffers[:1]
	same, _, err := n.Translate(more)
	require.NoError(t, err)
	require.Equal(t, ep, same, "buffers come and go")
	other := good()
	other.Host, other.Name = "fe80::1%eth0", "[fe80::1%eth0]:15001"
	moved, _, err := n.Translate(other)
	require.NoError(t, err)
	require.NotEqual(t, ep.Incarnation, moved.Incarnation)

	for name, change := range map[string]func(*transport.PeerSegment){
		"protocol": func(s *transport.PeerSegment) { s.Protocol = "rdma" },
		"no port":  func(s *transport.PeerSegment) { s.DataPort = 0 },
		"port":     func(s *transport.PeerSegment) { s.DataPort = 65536 },
		"no host":  func(s *transport.PeerSegment) { s.Host = "" },
		"host":     func(s *transport.PeerSegment) { s.Host = "a b" },
	} {
		s := good()
		change(&s)
		_, _, err := n.Translate(s)
		require.True(t, errs.Is(err, errs.InvalidParams), "%s: %v", name, err)
	}
}

// TestUpstreamDataHost: newer peers say where their data port is; it need not be the host
// of the handshake.
func TestUpstreamDataHost(t *testing.T) {
	for dataHost, want := range map[string]string{"": "10.0.0.1:7", "10.1.0.1": "10.1.0.1:7", "fd00::1": "[fd00::1]:7"} {
		ep, _, err := newNode(*loopback()).Translate(transport.PeerSegment{Host: "10.0.0.1", Segment: transport.Segment{Protocol: "tcp", DataHost: dataHost, DataPort: 7, DataVersion: 2}})
		require.NoError(t, err)
		e, err := frame.DecodeEndpoint(ep.Blob)
		require.NoError(t, err)
		require.Equal(t, []string{want}, e.Addrs)
	}
}

// TestUpstreamVersion: what the peer publishes, unless version 1 is wanted.
func TestUpstreamVersion(t *testing.T) {
	for _, c := range []struct{ published, wanted, want int }{{0, 0, 1}, {1, 0, 1}, {2, 0, 2}, {3, 0, 2}, {2, 1, 1}, {1, 2, 1}, {2, 2, 2}} {
		cfg := loopback()
		cfg.UpstreamProto = c.wanted
		ep, _, err := newNode(*cfg).Translate(transport.PeerSegment{Host: "h", Segment: transport.Segment{Protocol: "tcp", DataPort: 1, DataVersion: c.published}})
		require.NoError(t, err)
		e, err := frame.DecodeEndpoint(ep.Blob)
		require.NoError(t, err)
		require.EqualValues(t, c.want, e.Upstream)
	}
}

package tcp

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/frame"
	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/upstream"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

func FuzzUpstreamFrames(f *testing.F) {
	f.Add(unhex(f, recordedWrite))
	f.Add(unhex(f, recordedRead))
	f.Add(append(unhex(f, recordedStatus), make([]byte, 16)...))
	f.Add(bytes.Repeat([]byte{0xff}, upstream.HeaderSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < upstream.HeaderSize {
			return
		}
		var h upstream.Header
		h.Decode(b)
		require.Equal(t, b[:17], h.Put(make([]byte, upstream.HeaderSize))[:17])
		if h.Check() == frame.ReasonNone {
			require.Positive(t, int(h.Size))
			require.GreaterOrEqual(t, h.Addr+h.Size, h.Addr)
		}
		if code, err := upstream.DecodeStatus(b); err == nil {
			require.Equal(t, b[:8], upstream.PutStatus(make([]byte, 8), code))
			require.Error(t, upstream.Refusal("fuzz", code))
		}
	})
}

// upScript makes requests of upstream near two regions from the input of the fuzzer.
func upScript(in []byte, base uint64) []byte {
	var out []byte
	for len(in) >= 6 {
		h := upstream.Header{Addr: base + uint64(binary.LittleEndian.Uint16(in[1:])%4096), Size: uint64(binary.LittleEndian.Uint16(in[3:]) % 2048), Op: in[0] & 3, V2: in[0]&4 != 0}
		if in[0]&0x40 != 0 {
			h.Addr |= 0xffff << 48
		}
		if in[0]&0x20 != 0 {
			h.Size |= 0xff << 40
		}
		out = append(out, h.Put(make([]byte, upstream.HeaderSize))...)
		whole := in[5]&1 == 0
		in = in[6:]
		if h.Op != upstream.Write {
			continue
		}
		n := min(int(h.Size&0xfff), len(in)/2)
		out, in = append(out, in[:n]...), in[n:]
		if whole {
			out = append(out, make([]byte, int(h.Size&0xfff)-n)...)
		}
	}
	return append(out, in...)
}

// FuzzUpstreamServer throws requests, or bytes that look like one, at a live connection:
// nothing but the writable region changes, and none of it stays held.
func FuzzUpstreamServer(f *testing.F) {
	f.Add([]byte{5, 0, 1, 64, 0, 0, 1, 2, 3, 4}, true)
	f.Add([]byte{4, 0, 1, 64, 0, 0, 4, 0, 9, 64, 0, 0}, true)
	f.Add([]byte{1, 0, 1, 0, 4, 1, 9, 9, 9}, true)
	f.Add([]byte{5, 0, 9, 64, 0, 0, 0x45, 0, 9, 64, 0, 0, 0x25, 0, 1, 1, 0, 0}, true)
	f.Add(make([]byte, 24), false)
	f.Add(append([]byte{1, 0, 0, 0, 0, 0, 0, 0}, bytes.Repeat([]byte{0xff}, 30)...), false)
	f.Fuzz(func(t *testing.T, in []byte, wrapped bool) {
		cfg := loopback()
		cfg.StallTimeout, cfg.HandshakeTimeout, cfg.IdleTimeout = ms(20), ms(20), ms(20)
		n := newNode(*cfg)
		n.log, n.incarnation = slog.New(slog.DiscardHandler), 1
		n.life.Run()
		mem := bytes.Repeat([]byte{0xc3}, 4096)
		before := bytes.Clone(mem)
		open, shut := mem[256:1280], mem[2048:3072]
		a, err := n.regions.Add("register", transport.Region{ID: 1, Mem: open, Access: transport.AccessRemote})
		require.NoError(t, err)
		b, err := n.regions.Add("register", transport.Region{ID: 2, Mem: shut, Access: transport.AccessRemoteRead})
		require.NoError(t, err)
		if wrapped {
			in = upScript(in, bufferOf(mem).Addr)
		}
		ours, theirs := net.Pipe()
		c := n.admit(theirs)
		require.NotNil(t, c)
		served, heard := make(chan struct{}), make(chan struct{})
		go func() { c.run(); close(served) }()
		go func() { _, _ = io.Copy(io.Discard, ours); close(heard) }()
		_, _ = ours.Write(in)
		_ = ours.Close()
		<-served
		<-heard
		copy(before[256:], open) // The one region that may change.
		require.True(t, bytes.Equal(before, mem), "memory outside the writable region was written")
		require.Zero(t, a.Held())
		require.Zero(t, b.Held())
		require.Empty(t, n.conns)
		require.Zero(t, n.greeting)
		require.Zero(t, n.upstreamIn)
	})
}

// FuzzUpstreamAnswer lets a peer of upstream answer with any bytes: each operation completes
// once, typed, and nothing is written beside its memory.
func FuzzUpstreamAnswer(f *testing.F) {
	ok := upstream.PutStatus(make([]byte, 8), 0)
	f.Add(append(bytes.Clone(ok), make([]byte, 64)...), true, true)
	f.Add(upstream.PutStatus(make([]byte, 8), 1), true, false)
	f.Add(append(bytes.Clone(ok), 1), true, false)
	f.Add(bytes.Repeat(ok, 30), true, true)
	f.Add([]byte{1}, false, false)
	f.Add(make([]byte, 65), false, true)
	cfg := loopback()
	single(cfg)
	cfg.UpstreamStatusTimeout = ms(100)
	n := newNode(*cfg)
	require.NoError(f, n.Start(context.Background(), quiet{}))
	f.Cleanup(func() { require.NoError(f, n.Stop(context.Background())) })
	f.Fuzz(func(t *testing.T, answer []byte, v2, read bool) {
		s := newScripted(t)
		s.serve(func(c net.Conn) {
			_, _ = c.Write(answer)
			if t, ok := c.(*net.TCPConn); ok {
				_ = t.CloseWrite()
			}
			_, _ = io.Copy(io.Discard, c)
		})
		peer := transport.PeerSegment{Host: "127.0.0.1", Segment: transport.Segment{
			Protocol: "tcp", DataPort: s.port(), DataVersion: 1, Buffers: []transport.Buffer{{Addr: 4096, Length: 64}},
		}}
		if v2 {
			peer.DataVersion = 2
		}
		ep, keys, err := n.Translate(peer)
		require.NoError(t, err)
		p, err := n.Dial(context.Background(), ep)
		require.NoError(t, err)
		id, err := p.Import(context.Background(), keys[0])
		require.NoError(t, err)
		mem := bytes.Repeat([]byte{0xc3}, 64+2*16)
		op := transport.Op{ID: 5, Kind: transport.Write, Local: mem[16:80:80], Remote: id, Deadline: time.Now().Add(limit)}
		if read {
			op.Kind = transport.Read
		}
		got, err := p.Submit([]transport.Op{op})
		require.NoError(t, err)
		require.Equal(t, 1, got)
		dst := make([]transport.Completion, 2)
		got, err = p.Reap(context.Background(), dst)
		require.NoError(t, err)
		require.Equal(t, 1, got)
		require.EqualValues(t, 5, dst[0].ID)
		if dst[0].Status != transport.OK {
			require.NotEqual(t, errs.OK, errs.CodeOf(dst[0].Err), "%v", dst[0].Err)
		}
		require.NoError(t, p.Close(context.Background()))
		edge := bytes.Repeat([]byte{0xc3}, 16)
		require.Equal(t, edge, mem[:16])
		require.Equal(t, edge, mem[80:])
		if op.Kind == transport.Write {
			require.Equal(t, bytes.Repeat([]byte{0xc3}, 64), mem[16:80])
		}
	})
}

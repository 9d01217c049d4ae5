package tcp

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"math"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/frame"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
)

func FuzzHeader(f *testing.F) {
	f.Add(encoded(frame.Header{Type: frame.Read, ID: 1, Region: 1, Length: 4096}))
	f.Add(encoded(frame.ReasonRange.Answer(frame.Error, 9)))
	f.Add(encoded(frame.Header{Type: frame.Write, Follow: frame.MaxBatch - 1, Length: 1 << 31, Offset: 1 << 63}))
	f.Add([]byte("GET / HTTP/1.1\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var h frame.Header
		if err := h.Decode(b); err != nil {
			require.ErrorIs(t, err, frame.ErrFrame)
			return
		}
		require.Equal(t, b[:frame.Size], encoded(h), "there is one encoding only")
		_ = h.Refusal("fuzz").Error()
	})
}

func FuzzHello(f *testing.F) {
	f.Add(helloOf(3))
	f.Add(make([]byte, frame.Size))
	f.Add([]byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var h frame.Hello
		if h.Decode(b) == nil {
			require.LessOrEqual(t, h.Low, h.High)
			require.LessOrEqual(t, h.MaxFrame, uint32(frame.MaxSlice))
		}
	})
}

func FuzzEndpoint(f *testing.F) {
	f.Add(frame.Endpoint{Incarnation: 5, Addrs: []string{"10.0.0.1:80", "[::1]:1"}}.Encode())
	f.Add(frame.Endpoint{}.Encode())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, err := frame.DecodeEndpoint(b); err == nil {
			require.Equal(t, b, e.Encode())
			require.LessOrEqual(t, len(e.Addrs), transportkit.MaxAddresses)
		}
	})
}

func FuzzKey(f *testing.F) {
	f.Add([]byte((&frame.Key{RegionKey: transportkit.RegionKey{Incarnation: 1, Region: 1, Length: 9, Access: transport.AccessRemote}}).Encode()))
	f.Add(make([]byte, 56))
	f.Fuzz(func(t *testing.T, b []byte) {
		if k, err := frame.DecodeKey(b); err == nil {
			require.NotZero(t, k.Region)
			require.NotZero(t, k.Length)
		}
	})
}

// script is what FuzzServer makes of its input: headers with right checksums and bodies,
// or raw bytes.
func script(in []byte, first, second token) []byte {
	var out []byte
	for len(in) >= 8 {
		op, region, at, n := in[0], in[1], in[2:4], int(in[4])|int(in[5])<<8
		h := frame.Header{
			Type: frame.Type(op%8 + 1), Follow: uint16(in[6] % 4), ID: uint64(in[7]), Region: uint64(region % 4),
			Token: first, Offset: uint64(at[0]) | uint64(at[1])<<8, Length: uint32(n),
		}
		if h.Region == 2 {
			h.Token = second
		}
		if op&0x80 != 0 {
			h.Token[0]++
		}
		if op&0x40 != 0 {
			h.Offset |= 0xffffffffffff0000
		}
		out = append(out, encoded(h)...)
		in = in[8:]
		body := min(n, len(in)/2)
		out = append(out, in[:body]...)
		if op&0x20 == 0 { // As long as announced.
			out = append(out, make([]byte, n-body)...)
		}
		in = in[body:]
	}
	return append(out, in...)
}

// FuzzServer throws bytes at a live connection and checks that memory around the regions
// stays as it was, that a read-only region is never written, and that the server still
// serves afterwards.
func FuzzServer(f *testing.F) {
	f.Add([]byte{1, 1, 0, 0, 16, 0, 0, 1}, true)
	f.Add([]byte{0, 1, 16, 0, 16, 0, 0, 1, 1, 1, 250, 3, 200, 0, 0, 2}, true)
	f.Add(append([]byte{1, 2, 0, 0, 64, 0, 1, 1}, bytes.Repeat([]byte{7}, 64)...), true)
	f.Add([]byte{0x81, 1, 0, 0, 9, 0, 0, 1, 0x41, 1, 0, 0, 9, 0, 0, 2}, true)
	f.Add([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), false)
	f.Add(make([]byte, 24), false)
	f.Fuzz(func(t *testing.T, in []byte, wrapped bool) {
		cfg := loopback()
		cfg.StallTimeout, cfg.HandshakeTimeout, cfg.IdleTimeout = ms(20), ms(20), ms(20)
		n := newNode(*cfg)
		n.log, n.incarnation = slog.New(slog.DiscardHandler), 1
		n.life.Run()
		const guard, size = 256, 1024
		mem := make([]byte, 3*guard+2*size)
		for i := range mem {
			mem[i] = 0xc3
		}
		before := bytes.Clone(mem)
		open, shut := mem[guard:guard+size], mem[2*guard+size:2*guard+2*size]
		a, err := n.regions.Add("register", transport.Region{ID: 1, Mem: open, Access: transport.AccessRemote})
		require.NoError(t, err)
		b, err := n.regions.Add("register", transport.Region{ID: 2, Mem: shut, Access: transport.AccessRemoteRead})
		require.NoError(t, err)

		// send says hello and data, and leaves after want bytes, or when the server closes.
		send := func(data []byte, want int64) []byte {
			ours, theirs := net.Pipe()
			c := n.admit(theirs)
			require.NotNil(t, c)
			served := make(chan struct{})
			go func() { c.run(); close(served) }()
			var got bytes.Buffer
			read := make(chan struct{})
			go func() {
				_, _ = io.CopyN(&got, ours, want)
				if want < math.MaxInt64 {
					_ = ours.Close()
				}
				close(read)
			}()
			if wrapped {
				_, _ = ours.Write(helloOf(1))
			}
			_, _ = ours.Write(data)
			<-served
			_ = ours.Close()
			<-read
			return got.Bytes()
		}
		if wrapped {
			in = script(in, a.Token(), b.Token())
		}
		send(in, math.MaxInt64)
		copy(before[guard:], open) // The one region that may change.
		require.True(t, bytes.Equal(before, mem), "memory outside the writable region was written")
		require.Zero(t, a.Held())

		wrapped = true
		n.cfg.StallTimeout, n.cfg.HandshakeTimeout, n.cfg.IdleTimeout = limit, limit, limit
		got := send(encoded(frame.Header{Type: frame.Read, ID: 3, Region: 1, Token: a.Token(), Length: 8}), 2*frame.Size+8)
		require.Len(t, got, 2*frame.Size+8, "the server serves on")
		require.Equal(t, open[:8], got[2*frame.Size:])
		require.NoError(t, n.regions.Remove(context.Background(), "deregister", 1, time.Second))
		require.Equal(t, errs.InvalidParams, errs.CodeOf(n.regions.Remove(context.Background(), "deregister", 1, time.Second)))
		require.Empty(t, n.conns)
		require.Zero(t, n.greeting)
	})
}

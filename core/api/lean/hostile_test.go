package lean

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/mooncake-go/mooncake/core/internal/framed"
	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"
)

// TestHostileClients: nonsense ends its connection and nothing else.
func TestHostileClients(t *testing.T) {
	e := &echo{}
	addr, _ := serve(t, e, framed.Limits{Frame: 1 << 16, Stall: 200 * time.Millisecond})
	_, rpc := dial(t, addr, ClientOptions{})
	frame := func(b ...byte) string { return preface + string(b) }
	for name, text := range map[string]string{
		"half a preface":   "MCL1",
		"wrong preface":    "MCL1xxxx",
		"too long":         frame(0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0, 1, 5, 0, 0, 0, 0, 0, 0),
		"too short":        frame(1, 0, 0, 0, 1, 0, 0, 0, 1, 5, 0, 0, 0, 0, 0, 0),
		"call 0":           frame(12, 0, 0, 0, 0, 0, 0, 0, 1, 5, 0, 0, 0, 0, 0, 0),
		"unknown kind":     frame(12, 0, 0, 0, 1, 0, 0, 0, 9, 5, 0, 0, 0, 0, 0, 0),
		"an answer":        frame(12, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0),
		"name past end":    frame(12, 0, 0, 0, 1, 0, 0, 0, 1, 5, 0, 0, 0, 0, 0, 0),
		"reserved":         frame(13, 0, 0, 0, 1, 0, 0, 0, 1, 1, 7, 0, 0, 0, 0, 0, 'x'),
		"not HTTP/2":       "GET / HTTP/1.1\r\n\r\n",
		"nothing for long": "",
	} {
		conn, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		_, err = io.WriteString(conn, text)
		require.NoError(t, err)
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(patient)))
		_, err = io.Copy(io.Discard, conn)
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "%s: the connection was not ended", name)
		require.NoError(t, conn.Close())
		_, err = rpc.Exist(within(t), &masterv1.ExistRequest{})
		require.NoError(t, err, name)
	}
}

// TestAClientThatDoesNotRead loses its connection; others go on.
func TestAClientThatDoesNotRead(t *testing.T) {
	e := &echo{ready: func(context.Context) (string, error) { return strings.Repeat("x", 1<<20), nil }}
	addr, s := serve(t, e, framed.Limits{Frame: 2 << 20, Stall: 100 * time.Millisecond, Calls: 4})
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer conn.Close()
	const method = masterv1.MasterService_Ready_FullMethodName
	var b bytes.Buffer
	b.WriteString(preface)
	for i := range 64 {
		f := append(begin(nil, head{call: uint32(i + 1), kind: kindCall, small: uint8(len(method))}), method...)
		seal(f)
		b.Write(f)
	}
	_, err = conn.Write(b.Bytes())
	require.NoError(t, err)
	require.Eventually(t, func() bool { return s.conns.Load() == 1 }, patient, time.Millisecond)
	require.Eventually(t, func() bool { return s.conns.Load() == 0 }, patient, time.Millisecond)
	_, rpc := dial(t, addr, ClientOptions{})
	_, err = rpc.Exist(within(t), &masterv1.ExistRequest{})
	require.NoError(t, err)
}

// TestStopCutsOffWhatWaitsBehind: calls that were sent and wait for a free slot are cut off like
// those in progress.
func TestStopCutsOffWhatWaitsBehind(t *testing.T) {
	began, ended := make(chan struct{}, 3), make(chan error, 3)
	e := &echo{ready: func(ctx context.Context) (string, error) {
		began <- struct{}{}
		<-ctx.Done()
		ended <- ctx.Err()
		return "", ctx.Err()
	}}
	addr, s := serve(t, e, framed.Limits{Calls: 1, Call: patient})
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	require.NoError(t, err)
	defer conn.Close()
	method := masterv1.MasterService_Ready_FullMethodName
	all := []byte(preface)
	for id := range uint32(3) {
		b := append(begin(nil, head{call: id + 1, kind: kindCall, small: uint8(len(method))}), method...)
		seal(b)
		all = append(all, b...)
	}
	_, err = conn.Write(all)
	require.NoError(t, err)
	<-began
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.Stop(ctx)
	close(ended)
	for err := range ended {
		require.ErrorIs(t, err, context.Canceled, "it ended by its own limit")
	}
}

// TestOneNumberForTwoCalls is a client's mistake that ends its connection.
func TestOneNumberForTwoCalls(t *testing.T) {
	e := &echo{ready: func(ctx context.Context) (string, error) { <-ctx.Done(); return "", ctx.Err() }}
	addr, _ := serve(t, e, framed.Limits{})
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	require.NoError(t, err)
	defer conn.Close()
	method := masterv1.MasterService_Ready_FullMethodName
	b := append(begin(nil, head{call: 7, kind: kindCall, small: uint8(len(method))}), method...)
	seal(b)
	_, err = conn.Write(append(append([]byte(preface), b...), b...))
	require.NoError(t, err)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(patient)))
	got, err := io.ReadAll(conn)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
	require.Equal(t, preface, string(got[:len(preface)]))
}

// panicking is a codec that fails on a fault of its own, once.
type panicking struct {
	plain
	done atomic.Bool
}

func (p *panicking) Decode(b []byte, m proto.Message) error {
	if !p.done.Swap(true) {
		panic("a fault")
	}
	return p.plain.Decode(b, m)
}

// TestAFaultOfTheCodecFailsOneCall: others go on over the same connection, and it can be closed.
func TestAFaultOfTheCodecFailsOneCall(t *testing.T) {
	addr, _ := serve(t, &echo{}, framed.Limits{})
	codec := &panicking{}
	codec.done.Store(true)
	_, rpc := dial(t, addr, ClientOptions{Codec: codec})
	for range 3 { // Read by the watcher, then by callers.
		_, err := rpc.Exist(within(t), &masterv1.ExistRequest{})
		require.NoError(t, err)
		codec.done.Store(false)
		_, err = rpc.Exist(within(t), &masterv1.ExistRequest{})
		require.Equal(t, codes.Internal, status.Code(err), "%v", err)
	}
}

// TestHostileServers: nonsense fails the calls that wait, and the client connects again.
func TestHostileServers(t *testing.T) {
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	answers := make(chan string, 1)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			got := make([]byte, len(preface)+lengthSize+headSize)
			_, _ = io.WriteString(conn, preface)
			_, _ = io.ReadFull(conn, got)
			_, _ = io.WriteString(conn, <-answers)
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
		}
	})
	defer serving.Wait()
	defer ln.Close()
	c, rpc := dial(t, ln.Addr().String(), ClientOptions{Limits: framed.Limits{Frame: 1 << 16}, RetryMin: time.Nanosecond, RetryMax: time.Nanosecond})
	for name, text := range map[string]string{
		"too long":       "\xff\xff\xff\xff\x01\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00",
		"a call":         "\x0d\x00\x00\x00\x01\x00\x00\x00\x01\x01\x00\x00\x00\x00\x00\x00x",
		"unknown status": "\x0c\x00\x00\x00\x01\x00\x00\x00\x02\x63\x00\x00\x00\x00\x00\x00",
	} {
		answers <- text
		_, err := rpc.Exist(within(t), &masterv1.ExistRequest{})
		require.Equal(t, codes.Unavailable, status.Code(err), "%s: %v", name, err)
	}
	// An answer that cannot be decoded fails its call alone; one for which no call waits is
	// ignored.
	answers <- "\x0c\x00\x00\x00\x63\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00" + "\x0e\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\xff\xff"
	_, err = rpc.Exist(within(t), &masterv1.ExistRequest{})
	require.Equal(t, codes.Internal, status.Code(err), "%v", err)
	require.NoError(t, c.Close()) // The server waits for it.
}

func FuzzParseHead(f *testing.F) {
	f.Add([]byte("\x0d\x00\x00\x00\x01\x00\x00\x00\x01\x01\x00\x00\x00\x00\x00\x00x"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < lengthSize+headSize {
			return
		}
		h, rest, err := parseHead(b[:lengthSize+headSize], 1<<20)
		if err != nil {
			return
		}
		again := begin(nil, h)
		again = append(again, make([]byte, rest)...)
		seal(again)
		require.Equal(t, b[:lengthSize+headSize], again[:lengthSize+headSize])
		require.True(t, h.kind != kindCall || int(h.small) <= rest)
	})
}

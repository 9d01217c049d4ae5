package lean

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/mooncake-go/mooncake/core/internal/framed"
	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"
	"github.com/mooncake-go/mooncake/sdk/x/busypoll"
)

// TestEachMethodHasAPoller: whether polling for the answers to one method pays says nothing about another method.
func TestEachMethodHasAPoller(t *testing.T) {
	addr, _ := serve(t, &echo{}, framed.Limits{})
	c, rpc := dial(t, addr, ClientOptions{})
	for range 2 {
		_, err := rpc.Exist(within(t), &masterv1.ExistRequest{})
		require.NoError(t, err)
		_, err = rpc.Remove(within(t), &masterv1.RemoveRequest{})
		require.Error(t, err, "the server does not have it")
	}
	require.Len(t, c.current.pollers, 2)
	seen := map[*busypoll.Poller]bool{}
	for _, p := range c.current.pollers {
		seen[p] = true
	}
	require.Len(t, seen, 2)
}

// TestShortCallsBesideLongOnes: two calls last until they are told otherwise. Meanwhile others
// come, go and are given up, and whoever reads for the long ones changes. Their answers arrive all
// the same, and one that waited with them can be given up.
func TestShortCallsBesideLongOnes(t *testing.T) {
	for range 20 {
		answer, heard := make(chan string), make(chan struct{})
		e := &echo{ready: func(ctx context.Context) (string, error) {
			select {
			case text := <-answer:
				return text, nil
			case <-ctx.Done():
				close(heard)
				return "", ctx.Err()
			}
		}}
		addr, _ := serve(t, e, framed.Limits{})
		c, rpc := dial(t, addr, ClientOptions{})
		var long sync.WaitGroup
		for range 2 {
			long.Go(func() {
				r, err := rpc.Ready(within(t), &masterv1.ReadyRequest{})
				if assert.NoError(t, err) {
					assert.Equal(t, "at last", r.GetVersion())
				}
			})
		}
		givenUp, giveUp := context.WithCancel(t.Context())
		var third sync.WaitGroup
		third.Go(func() {
			_, err := rpc.Ready(givenUp, &masterv1.ReadyRequest{})
			assert.Equal(t, codes.Canceled, status.Code(err), "%v", err)
		})
		time.Sleep(2 * slice)
		var short sync.WaitGroup
		for g := range 4 {
			short.Go(func() {
				for i := range 50 {
					ctx, cancel := context.WithCancel(t.Context())
					if (g+i)%3 == 0 {
						go func() { time.Sleep(time.Duration(i) * time.Microsecond); cancel() }()
					}
					r, err := rpc.Exist(ctx, &masterv1.ExistRequest{Keys: [][]byte{make([]byte, i)}})
					if status.Code(err) != codes.Canceled && assert.NoError(t, err) {
						assert.EqualValues(t, i, r.GetErrors()[0].GetIndex())
					}
					cancel()
				}
			})
		}
		short.Wait()
		require.Empty(t, c.current.turn.free, "a goroutine has to read for the waiting caller")
		giveUp()
		third.Wait()
		<-heard
		answer <- "at last"
		answer <- "at last"
		long.Wait()
		_, err := rpc.Exist(within(t), &masterv1.ExistRequest{})
		require.NoError(t, err)
		require.Eventually(t, func() bool { return len(c.current.turn.free) == 1 }, patient, time.Millisecond, "callers read by themselves again")
	}
}

// TestPiecesThatComeSlowly: the answer takes longer than a caller reads by itself, with pauses
// anywhere: in its head, in a body that the buffer holds, and in one that it does not.
func TestPiecesThatComeSlowly(t *testing.T) {
	for _, keys := range []int{1, 300, readBuffer} {
		want := &masterv1.ExistResponse{}
		for i := range keys {
			want.Errors = append(want.Errors, &masterv1.ItemError{Index: uint32(i)})
		}
		addr := serveSlowly(t, want)
		_, rpc := dial(t, addr, ClientOptions{})
		for range 5 {
			got, err := rpc.Exist(within(t), &masterv1.ExistRequest{})
			require.NoError(t, err)
			require.True(t, proto.Equal(want, got), "%d keys", keys)
		}
	}
}

// serveSlowly gives one connection the same answer again and again, in pieces.
func serveSlowly(t *testing.T, answer proto.Message) (addr string) {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	body, err := proto.Marshal(answer)
	require.NoError(t, err)
	var serving sync.WaitGroup
	serving.Go(func() {
		conn, err := ln.Accept()
		if !assert.NoError(t, err) {
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, preface)
		_, _ = io.ReadFull(conn, make([]byte, len(preface)))
		var in frameReader
		if !assert.NoError(t, in.open(conn, framed.Limits{}.WithDefaults())) {
			return
		}
		for i := 0; ; i++ {
			h, _, err := in.next()
			if err != nil {
				return // The client is gone.
			}
			in.done()
			b := append(begin(nil, head{call: h.call, kind: kindAnswer}), body...)
			seal(b)
			const inBody = lengthSize + headSize + 1
			from, cuts := 0, []int{3, inBody - 2, inBody - 1, inBody, len(b) - 1, len(b)}
			for _, to := range cuts[i%len(cuts):] { // The first pause is somewhere else each time.
				if _, err := conn.Write(b[from:to]); !assert.NoError(t, err) {
					return
				}
				from = to
				time.Sleep(2 * slice)
			}
		}
	})
	t.Cleanup(func() { _ = ln.Close(); serving.Wait() })
	return ln.Addr().String()
}

// TestASlowCallKeepsNoCallWaiting: the server works on small calls where it reads them. One that
// lasts must not keep the next ones of its connection from being read, and two of them neither.
func TestASlowCallKeepsNoCallWaiting(t *testing.T) {
	goOn := make(chan struct{})
	var under atomic.Int64
	e := &echo{ready: func(context.Context) (string, error) { under.Add(1); <-goOn; return "", nil }}
	addr, _ := serve(t, e, framed.Limits{})
	_, rpc := dial(t, addr, ClientOptions{})
	var slow sync.WaitGroup
	for i := range int64(3) {
		slow.Go(func() {
			_, err := rpc.Ready(within(t), &masterv1.ReadyRequest{})
			assert.NoError(t, err)
		})
		require.Eventually(t, func() bool { return under.Load() == i+1 }, patient, time.Millisecond)
		for range 20 {
			_, err := rpc.Exist(within(t), &masterv1.ExistRequest{})
			require.NoError(t, err)
		}
	}
	close(goOn)
	slow.Wait()
}

// TestACallInPieces: the server's wait for a call ends in the middle of one. That is no end of the
// connection.
func TestACallInPieces(t *testing.T) {
	const idle = 20 * time.Millisecond
	addr, _ := serve(t, &echo{}, framed.Limits{Idle: idle})
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, preface)
	require.NoError(t, err)
	got := make([]byte, len(preface))
	_, err = io.ReadFull(conn, got)
	require.NoError(t, err)
	method := masterv1.MasterService_Exist_FullMethodName
	b := append(begin(nil, head{call: 7, kind: kindCall, small: uint8(len(method))}), method...)
	seal(b)
	for _, piece := range [][]byte{b[:1], b[1:20], b[20:]} {
		_, err = conn.Write(piece)
		require.NoError(t, err)
		time.Sleep(2 * idle)
	}
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(patient)))
	var in frameReader
	require.NoError(t, in.open(conn, framed.Limits{}.WithDefaults()))
	h, _, err := in.next()
	require.NoError(t, err)
	require.Equal(t, head{call: 7, kind: kindAnswer}, h)
}

package memwire

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/x/shm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openFDs(t *testing.T) int {
	all, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(all)
}

// TestInbox: garbage, messages without descriptors, tokens used twice and messages that no
// call asks for leave nothing behind and do not stop what follows.
func TestInbox(t *testing.T) {
	before := openFDs(t)
	host, theirs, err := shm.Pair("test")
	require.NoError(t, err)
	fd, err := unix.Dup(int(theirs.Fd()))
	require.NoError(t, err)
	require.NoError(t, theirs.Close())
	conn, err := shm.NewConn(fd, "test")
	require.NoError(t, err)
	b := NewInbox()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); b.Receive(ctx, conn, slog.New(slog.DiscardHandler)) }()
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	send := func(msg []byte, n int) {
		fds := make([]int, n)
		for i := range fds {
			fds[i] = int(null.Fd())
		}
		require.NoError(t, host.Send(ctx, msg, fds...))
	}
	send([]byte("garbage"), 3)
	send(bytes.Repeat([]byte{7}, shm.MaxMessage), shm.MaxFDs)
	send(EncodeMessage(5), 0)
	send(EncodeMessage(6), 2)
	send(EncodeMessage(6), 1)
	for i := range uint64(maxUnclaimed + 20) {
		send(EncodeMessage(1000+i), 1)
	}
	send(EncodeMessage(7), 3)
	fds, err := b.Take(ctx, 7)
	require.NoError(t, err)
	require.Len(t, fds, 3)
	CloseFDs(fds)
	short, stop := context.WithTimeout(ctx, time.Millisecond)
	defer stop()
	_, err = b.Take(short, 6) // It was the oldest.
	require.ErrorIs(t, err, errs.RPCTimeout.Err())
	require.LessOrEqual(t, len(b.kept), maxUnclaimed)
	require.NoError(t, host.Close())
	<-done
	_, err = b.Take(ctx, 8)
	require.ErrorIs(t, err, errs.RPCFail.Err(), "the host is gone")
	cancel()
	b.Close()
	b.Put(9, nil)
	require.NoError(t, conn.Close())
	require.NoError(t, null.Close())
	require.Equal(t, before, openFDs(t))
}

// FuzzMessages: no message with descriptors does more than be refused.
func FuzzMessages(f *testing.F) {
	f.Add(EncodeMessage(1))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		if token, err := DecodeMessage(b); err == nil {
			require.Equal(t, b, EncodeMessage(token))
			require.NotZero(t, token)
		}
	})
}

func TestMessages(t *testing.T) {
	token, err := DecodeMessage(EncodeMessage(77))
	require.NoError(t, err)
	require.EqualValues(t, 77, token)
	for _, bad := range [][]byte{nil, EncodeMessage(0), EncodeMessage(1)[:15], append(EncodeMessage(1), 0), []byte(strings.Repeat("x", 16))} {
		_, err := DecodeMessage(bad)
		require.Error(t, err, "%x", bad)
	}
}

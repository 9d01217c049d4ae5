package local_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/local"
	"github.com/mooncake-go/mooncake/core/store/local/internal/frame"
	"github.com/mooncake-go/mooncake/core/store/local/serve"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	localv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/local/v1"
)

// TestNothingOfAnObjectInASocket: the bytes through the sockets do not grow with the
// objects, in either direction, and the transports work on the caller's memory.
func TestNothingOfAnObjectInASocket(t *testing.T) {
	_, socket := startServer(t, startPool(t), nil)
	count := func(size int) int {
		c, a := attach(t, socket, func(c *local.Config) { c.LocalBufferSize, c.PingInterval = 0, time.Hour })
		mem := shared(c, a)(t, size)
		before := c.Traffic()
		for i := range 8 {
			key := fmt.Sprintf("%08d/%d", size, i)
			fill(mem, key)
			require.NoError(t, c.Put(t.Context(), key, mem, one))
			clear(mem)
			_, err := c.GetInto(t.Context(), key, mem)
			require.NoError(t, err)
			require.Equal(t, content(key, size), mem)
			b, err := c.GetBuffer(t.Context(), key)
			require.NoError(t, err)
			require.Equal(t, mem, b.Bytes())
			b.Release()
		}
		return int(c.Traffic() - before)
	}
	small, large := count(4096), count(1<<20)
	require.Less(t, large, small+8*64, "1 MiB objects need the control bytes of 4 KiB ones: %d and %d", large, small)
	require.Less(t, large, 8*4096)
}

// TestLocalBuffer: values in other memory go through the local buffer, as many at a time
// as fit, and what never fits says so.
func TestLocalBuffer(t *testing.T) {
	_, socket := startServer(t, startPool(t), func(c *serve.Config) { c.LendSize = 0 })
	c, _ := attach(t, socket, func(c *local.Config) { c.LocalBufferSize = 64 << 10 })
	var keys []string
	var values [][]byte
	for i := range 20 {
		keys = append(keys, fmt.Sprint("k", i))
		values = append(values, content(keys[i], 30_000))
	}
	compete := func(f func()) { // For the buffer.
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(f)
		}
		wg.Wait()
	}
	compete(func() { // The second caller succeeds, also before the first has ended.
		for _, err := range c.BatchPut(t.Context(), keys, values, one) {
			if err != nil {
				t.Error(err)
			}
		}
	})
	compete(func() {
		for i, r := range c.BatchGet(t.Context(), keys) {
			if r.Err != nil || string(r.Value) != string(values[i]) {
				t.Errorf("%s: %v", keys[i], r.Err)
			}
		}
	})
	err := c.Put(t.Context(), "large", content("large", 64<<10+1), one)
	require.Equal(t, errs.BufferOverflow, errs.CodeOf(err))
	require.ErrorContains(t, err, "allocator")
	b, err := c.GetBuffer(t.Context(), "k1")
	require.NoError(t, err, "in the local buffer, as the service lends nothing")
	require.Equal(t, values[1], b.Bytes())
	b.Release()
}

// TestCancel: a cancelled call ends early at the service as well, and returns when the
// service is done with the memory.
func TestCancel(t *testing.T) {
	p := startPool(t)
	s, socket := startServer(t, p, nil)
	c, a := attach(t, socket, nil)
	mem := shared(c, a)(t, 8<<20)
	require.NoError(t, c.Put(t.Context(), "k", mem, one))
	ctx, cancel := context.WithCancel(t.Context())
	p.wire.SetHook(func(memtransport.Event) memtransport.Fault {
		cancel()
		return memtransport.Fault{Delay: time.Second} // It takes a while until the service knows.
	})
	_, err := c.GetInto(ctx, "k", mem)
	require.Error(t, err)
	require.Zero(t, s.Figures().Calls, "no call uses the memory any more")
	p.wire.SetHook(nil)
	require.True(t, c.Attached())
	_, err = c.GetInto(t.Context(), "k", mem)
	require.NoError(t, err)
}

// TestQuarantine: memory that may still be written to stays mapped at the service, and the
// caller is told.
func TestQuarantine(t *testing.T) {
	p := startPool(t)
	s, socket := startServer(t, p, nil)
	a := &local.Allocator{}
	cfg := local.DefaultConfig(socket)
	cfg.Allocator, cfg.LocalBufferSize = a, 0
	c, err := local.Attach(t.Context(), cfg)
	require.NoError(t, err)
	mem, err := a.Alloc(1 << 20)
	require.NoError(t, err)
	require.NoError(t, c.RegisterBuffer(t.Context(), mem, ""))
	require.NoError(t, c.Put(t.Context(), "k", mem, one))
	p.wire.SetHook(func(memtransport.Event) memtransport.Fault {
		return memtransport.Fault{Err: errs.WithClass(errs.ClassTransientPath, "test", errors.New("cut")), Quarantine: true}
	})
	_, err = c.GetInto(t.Context(), "k", mem)
	require.ErrorIs(t, err, transfer.ErrQuarantined)
	p.wire.SetHook(nil)
	require.NoError(t, closeClient(c))
	require.Eventually(t, func() bool { return s.Figures().Attached == 0 }, 30*time.Second, time.Millisecond)
	require.EqualValues(t, 1<<20, s.Figures().Quarantined)
	require.NoError(t, a.Free(mem))
}

// TestUnregisterWaits: memory that a call still writes to is unmapped at the service only
// after it.
func TestUnregisterWaits(t *testing.T) {
	p := startPool(t)
	_, socket := startServer(t, p, nil)
	c, a := attach(t, socket, nil)
	mem, err := a.Alloc(1 << 20)
	require.NoError(t, err)
	fill(mem, "k")
	require.NoError(t, c.RegisterBuffer(t.Context(), mem, ""))
	require.NoError(t, c.Put(t.Context(), "k", mem, one))
	clear(mem)
	asked := make(chan struct{}, 64)
	p.wire.SetHook(func(memtransport.Event) memtransport.Fault {
		asked <- struct{}{}
		return memtransport.Fault{Delay: 50 * time.Millisecond}
	})
	read := make(chan error)
	go func() { _, err := c.GetInto(t.Context(), "k", mem); read <- err }()
	<-asked
	gone := make(chan error)
	go func() { gone <- c.UnregisterBuffer(t.Context(), mem) }()
	require.NoError(t, <-read)
	require.NoError(t, <-gone)
	p.wire.SetHook(nil)
	require.Equal(t, content("k", 1<<20), mem)
	require.NoError(t, a.Free(mem))
}

// TestRegister: only whole allocations, once, and not freed while in use.
func TestRegister(t *testing.T) {
	_, socket := startServer(t, startPool(t), nil)
	c, a := attach(t, socket, nil)
	mem, err := a.Alloc(5000)
	require.NoError(t, err)
	require.Len(t, mem, 5000)
	bad := func(err error, text string) {
		t.Helper()
		require.Equal(t, errs.InvalidParams, errs.CodeOf(err), "%v", err)
		require.ErrorContains(t, err, text)
	}
	bad(c.RegisterBuffer(t.Context(), mem[:4999], ""), "exactly one allocation")
	bad(c.RegisterBuffer(t.Context(), mem[1:], ""), "exactly one allocation")
	bad(c.RegisterBuffer(t.Context(), make([]byte, 10), ""), "exactly one allocation")
	bad(c.UnregisterBuffer(t.Context(), mem), "no buffer")
	require.NoError(t, c.RegisterBuffer(t.Context(), mem, "cpu:0"))
	bad(c.RegisterBuffer(t.Context(), mem, ""), "already")
	bad(a.Free(mem), "unregister it first")
	require.NoError(t, c.UnregisterBuffer(t.Context(), mem))
	require.NoError(t, a.Free(mem))
	bad(a.Free(mem), "nothing was allocated")
	_, err = a.Alloc(0)
	bad(err, "size")
}

// TestAttach: what is wrong is said, and a closed client refuses.
func TestAttach(t *testing.T) {
	_, err := local.Attach(t.Context(), local.DefaultConfig("relative.sock"))
	require.Equal(t, errs.InvalidParams, errs.CodeOf(err))
	_, err = local.Attach(t.Context(), local.DefaultConfig("/"+strings.Repeat("x", 108)))
	require.Equal(t, errs.InvalidParams, errs.CodeOf(err))
	_, err = local.Attach(t.Context(), local.DefaultConfig(newSocket()))
	require.Equal(t, errs.RPCFail, errs.CodeOf(err))
	require.ErrorContains(t, err, "mooncake client serve")
	require.Equal(t, "@@mooncake_client_50052.sock", local.SocketOfPort(50052))

	p := startPool(t)
	path := filepath.Join(t.TempDir(), "mooncake.sock")
	s, err := launch(p, path, nil)
	require.NoError(t, err)
	c, err := local.Attach(t.Context(), local.DefaultConfig(path))
	require.NoError(t, err)
	require.NoError(t, closeClient(c))
	require.NoError(t, closeClient(c))
	require.ErrorIs(t, c.Put(t.Context(), "k", []byte("v"), one), store.ErrClosed)
	_, err = c.Ready(t.Context())
	require.ErrorIs(t, err, store.ErrClosed)
	require.NoError(t, halt(s))
	// A file that a killed service left is taken over; another file is not touched.
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	ln.SetUnlinkOnClose(false)
	require.NoError(t, ln.Close())
	s, err = launch(p, path, nil)
	require.NoError(t, err)
	require.NoError(t, halt(s))
}

// TestFrozenService: a service that does not answer is given up in time, and what it may
// still do to memory is said.
func TestFrozenService(t *testing.T) {
	t.Parallel() // It waits for longer than a machine stalls.
	socket := newSocket()
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	require.NoError(t, err)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer ln.Close()
	stop := make(chan struct{})
	defer close(stop)
	wg.Go(func() { // It greets, takes memory, and then says nothing any more.
		for {
			c, err := ln.AcceptUnix()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				kind, _, err := frame.ReadPreamble(c)
				if err == nil && kind == frame.Lifeline {
					line := frame.Conn{UnixConn: c}
					for range 2 {
						fd, _ := line.Recv(time.Time{}, &localv1.AttachRequest{})
						if fd >= 0 {
							_ = unix.Close(fd)
						}
						_ = line.Send(time.Time{}, &localv1.AttachResponse{Welcome: &localv1.Welcome{Token: make([]byte, 16)}}, -1)
					}
				}
				<-stop
			})
		}
	})
	cfg := local.DefaultConfig(socket)
	cfg.PingInterval, cfg.PingTimeout, cfg.SettleTimeout, cfg.OutageWait = time.Millisecond, 3*time.Second, 20*time.Millisecond, 0
	c, err := local.Attach(t.Context(), cfg)
	require.NoError(t, err)
	err = c.Put(t.Context(), "k", []byte("v"), one)
	require.Equal(t, errs.RPCFail, errs.CodeOf(err))
	require.ErrorIs(t, err, transfer.ErrQuarantined)
	_ = closeClient(c) // What it says depends on which of the attachments was the last.
}

// TestStatus: the TCP port tells what goes on, and offers nothing else.
func TestStatus(t *testing.T) {
	s, socket := startServer(t, startPool(t), nil)
	c, a := attach(t, socket, nil)
	shared(c, a)(t, 1<<20)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	st := serve.NewStatusServer(s, nil)
	var wg sync.WaitGroup
	wg.Go(func() { _ = st.Serve(ln) })
	defer wg.Wait()
	defer st.Stop()
	conn, err := grpc.NewClient(ln.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	got, err := localv1.NewStatusServiceClient(conn).Status(t.Context(), &localv1.StatusRequest{})
	require.NoError(t, err)
	require.Equal(t, socket, got.GetSocket())
	require.EqualValues(t, 1, got.GetAttached())
	require.EqualValues(t, 2, got.GetRegions())
	_, err = localv1.NewLocalServiceClient(conn).Ready(t.Context(), &localv1.ReadyRequest{})
	require.ErrorContains(t, err, "unknown service")
}

package rpc_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/api/rpc"
	"github.com/mooncake-go/mooncake/core/internal/testkit/heldport"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestReadyTellsTheVersion(t *testing.T) {
	m := newTableMaster()
	c := connect(t, m)
	v, err := c.Ready(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "1.2.3", v)
	_, local := m.Ready(t.Context())
	require.NoError(t, local)
}

func TestNotReadyKeepsItsCode(t *testing.T) {
	m := newTableMaster()
	m.ready = errs.New(errs.UnavailableInCurrentStatus, "master", "standby")
	_, err := connect(t, m).Ready(t.Context())
	assert.ErrorIs(t, err, errs.UnavailableInCurrentStatus.Err())
	assert.Equal(t, m.ready.Error(), err.Error())
}

func TestEveryCodeCrossesTheWire(t *testing.T) {
	m := newTableMaster()
	c := connect(t, m)
	for _, code := range errs.Codes() {
		if code == errs.OK {
			continue
		}
		m.ready = errs.WithClass(errs.ClassLocalDevice, "x", code.Err())
		_, err := c.Ready(t.Context())
		assert.Equal(t, code, errs.CodeOf(err))
		assert.Equal(t, errs.ClassLocalDevice, errs.ClassOf(err))
	}
	m.ready = errors.New("plain, and \xff not UTF-8")
	_, err := c.Ready(t.Context())
	assert.Equal(t, errs.Internal, errs.CodeOf(err))
	assert.ErrorContains(t, err, "plain, and")
}

func TestUnreachableMaster(t *testing.T) {
	addr := heldport.Address(t)
	c := dial(t, addr, rpc.Options{})
	_, err := c.Exist(t.Context(), nobody, []string{"k"})
	assert.Equal(t, errs.RPCFail, errs.CodeOf(err))
	assert.Equal(t, errs.ClassTransientPeer, errs.ClassOf(err))
	assert.ErrorContains(t, err, "is the master running at "+addr)
	assert.ErrorContains(t, err, "mooncake master")
}

func TestCallsAreBounded(t *testing.T) {
	m := newTableMaster()
	// Not until the call's end: the deadline travels with the call, and a server that keeps
	// it may answer before the client has noticed.
	release := make(chan struct{})
	m.before = func(context.Context, []model.Key) { <-release }
	addr := serve(t, m, rpc.ServerOptions{})
	c := dial(t, addr, rpc.Options{Timeout: 20 * time.Millisecond})
	_, err := c.Exist(context.Background(), nobody, []string{"k"})
	close(release)
	assert.Equal(t, errs.RPCTimeout, errs.CodeOf(err))
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Equal(t, errs.ClassTransientPeer, errs.ClassOf(err))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = c.Exist(ctx, nobody, []string{"k"})
	assert.ErrorIs(t, err, context.Canceled)
}

func TestServerBoundsCallsToo(t *testing.T) {
	m := newTableMaster()
	m.before = func(ctx context.Context, _ []model.Key) { <-ctx.Done() }
	c := dial(t, serve(t, m, rpc.ServerOptions{CallTimeout: 10 * time.Millisecond}), rpc.Options{})
	_, err := c.Exist(context.Background(), nobody, []string{"k"})
	require.NoError(t, err, "the server's own bound ended the wait in the master")
}

func TestPanicFailsOneCall(t *testing.T) {
	m := newTableMaster()
	m.before = func(_ context.Context, keys []model.Key) {
		if keys[0] == "panic" {
			panic("boom")
		}
	}
	c := connect(t, m)
	_, err := c.Exist(t.Context(), nobody, []string{"panic"})
	assert.Equal(t, errs.Internal, errs.CodeOf(err))
	assert.NotContains(t, err.Error(), "boom", "the inside stays in the log")
	_, err = c.Exist(t.Context(), nobody, []string{"k"})
	assert.NoError(t, err)
}

func TestReconnectsAfterARestart(t *testing.T) {
	addr := heldport.Address(t)
	ln, err := net.Listen("tcp", addr)
	require.NoError(t, err)
	stop := start(t, newTableMaster(), rpc.ServerOptions{}, ln)
	c := dial(t, addr, rpc.Options{MaxRetryDelay: 10 * time.Millisecond})
	_, err = c.Ready(t.Context())
	require.NoError(t, err)

	stop()
	_, err = c.Ready(t.Context())
	require.Equal(t, errs.RPCFail, errs.CodeOf(err))

	ln, err = net.Listen("tcp", addr)
	require.NoError(t, err)
	start(t, newTableMaster(), rpc.ServerOptions{}, ln)
	require.Eventually(t, func() bool { _, err := c.Ready(t.Context()); return err == nil }, 30*time.Second, 5*time.Millisecond)
}

func TestGarbageDisturbsNobody(t *testing.T) {
	m := newTableMaster()
	addr := serve(t, m, rpc.ServerOptions{HandshakeTimeout: 200 * time.Millisecond})
	c := dial(t, addr, rpc.Options{})
	// The client has to shake hands in time, too, which a busy machine may take several tries for.
	require.Eventually(t, func() bool { _, err := c.Ready(t.Context()); return err == nil }, 30*time.Second, 5*time.Millisecond)

	random := make([]byte, 64<<10)
	rng := rand.NewChaCha8([32]byte{1})
	rng.Read(random)
	for name, payload := range map[string][]byte{
		"random": random, "http/1": []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), "nothing": nil,
		"preface and garbage": append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), random...),
		"huge frame":          []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\x04\x00\x00\x00\x00\x00"),
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", addr)
			require.NoError(t, err)
			defer conn.Close()
			_, _ = conn.Write(payload) // The server may have closed already.
			require.NoError(t, conn.SetReadDeadline(time.Now().Add(30*time.Second)))
			for err == nil {
				_, err = conn.Read(make([]byte, 1024))
			}
			var timeout net.Error
			assert.False(t, errors.As(err, &timeout) && timeout.Timeout(), "the server keeps a stranger's connection")
			_, err = c.Ready(t.Context())
			assert.NoError(t, err)
		})
	}
	t.Run("tls", func(t *testing.T) {
		dialer := &net.Dialer{Timeout: 5 * time.Second}
		_, err := tls.DialWithDialer(dialer, "tcp", addr, &tls.Config{InsecureSkipVerify: true})
		assert.Error(t, err)
		_, err = c.Ready(t.Context())
		assert.NoError(t, err)
	})
}

func TestLargeBatchesAreCut(t *testing.T) {
	m := newTableMaster()
	c := connect(t, m)
	keys := make([]string, 300)
	for i := range keys {
		keys[i] = fmt.Sprintf("%04d", i) + strings.Repeat("k", 60<<10) // 18 MiB together
	}
	res, err := c.Exist(t.Context(), nobody, keys)
	require.NoError(t, err)
	assert.Len(t, res, len(keys))
	assert.Greater(t, len(m.batches), 3)

	m.batches = nil
	many := make([]string, 10_000)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	objs, err := c.GetReplicas(t.Context(), nobody, many, nil)
	require.NoError(t, err)
	assert.Equal(t, []int{4096, 4096, 1808}, m.batches)
	assert.ErrorContains(t, objs[9_999].Err, `"9999"`)
}

func TestErrorInALaterPiece(t *testing.T) {
	m := newTableMaster()
	calls := 0
	m.before = func(context.Context, []model.Key) {
		if calls++; calls == 2 {
			panic("second")
		}
	}
	c := dial(t, serve(t, m, rpc.ServerOptions{}), rpc.Options{MaxItems: 2})
	res, err := c.Exist(t.Context(), nobody, []string{"a", "b", "c", "d", "e"})
	require.NoError(t, err)
	for i, r := range res {
		assert.Equal(t, i >= 2, r.Err != nil, i)
	}
	assert.Equal(t, errs.Internal, errs.CodeOf(res[4].Err))
	assert.Equal(t, 2, calls, "nothing is sent after a failure")
}

func TestListPages(t *testing.T) {
	m := newTableMaster()
	for i := range 20_000 {
		m.objects[fmt.Sprintf("%05d", i)] = &entry{complete: true}
	}
	for i := range 200 {
		m.objects[fmt.Sprintf("x%03d", i)+strings.Repeat("x", 60<<10)] = &entry{complete: true}
	}
	c := connect(t, m)
	want, err := m.ListKeys(t.Context(), nobody, "", "", 1<<20)
	require.NoError(t, err)
	got, err := c.ListKeys(t.Context(), nobody, "", "", 1<<20)
	require.NoError(t, err)
	require.Len(t, want, 20_200)
	assert.True(t, slices.Equal(want, got))
	got, err = c.ListKeys(t.Context(), nobody, "", "", 17_000)
	require.NoError(t, err)
	assert.Len(t, got, 17_000)
}

func TestBadAddress(t *testing.T) {
	for _, addr := range []string{"", "host", ":50051", "host:0", "host:x", "host:70000", "a:b:c"} {
		_, err := rpc.Dial(addr, rpc.Options{})
		assert.Equal(t, errs.InvalidParams, errs.CodeOf(err), addr)
		assert.ErrorContains(t, err, "127.0.0.1:50051", addr)
	}
}

func TestStopCutsOffWhatDoesNotEnd(t *testing.T) {
	m := newTableMaster()
	entered := make(chan struct{})
	m.before = func(ctx context.Context, _ []model.Key) { close(entered); <-ctx.Done() }
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := rpc.NewServer(m, rpc.ServerOptions{})
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	c := dial(t, ln.Addr().String(), rpc.Options{})
	failed := make(chan error, 1)
	go func() { _, err := c.Exist(context.Background(), nobody, []string{"k"}); failed <- err }()
	<-entered
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s.Stop(ctx)
	s.Stop(ctx)
	assert.NoError(t, <-served)
	assert.Equal(t, errs.RPCFail, errs.CodeOf(<-failed))
}

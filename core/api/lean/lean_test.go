package lean

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/mooncake-go/mooncake/core/internal/foreign"
	"github.com/mooncake-go/mooncake/core/internal/framed"
	"github.com/mooncake-go/mooncake/sdk/errs"
	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patient is for waits that end at once unless something is broken.
const patient = 30 * time.Second

// echo answers Exist with one byte for each key, and Ready with what the test wants.
type echo struct {
	masterv1.UnimplementedMasterServiceServer
	ready func(context.Context) (string, error)
	calls atomic.Int64
}

func (e *echo) Exist(_ context.Context, in *masterv1.ExistRequest) (*masterv1.ExistResponse, error) {
	e.calls.Add(1)
	out := &masterv1.ExistResponse{}
	for _, k := range in.GetKeys() {
		out.Errors = append(out.Errors, &masterv1.ItemError{Index: uint32(len(k))})
	}
	return out, nil
}

func (e *echo) Ready(ctx context.Context, _ *masterv1.ReadyRequest) (*masterv1.ReadyResponse, error) {
	text, err := e.ready(ctx)
	return &masterv1.ReadyResponse{Version: text}, err
}

// serve listens on loopback and serves e over both framings.
func serve(t *testing.T, e *echo, l framed.Limits) (addr string, s *server) {
	t.Helper()
	s = newServer(e, l)
	ln := listen(t)
	serveBoth(t, ln, s, e, grpc.ConnectionTimeout(200*time.Millisecond))
	return ln.Addr().String(), s
}

// server is one of this framing alone.
type server struct {
	*framed.Server
	conns atomic.Int32 // that are open
}

func newServer(e *echo, l framed.Limits) *server {
	s := &server{Server: framed.NewServer()}
	s.Connections = func(_ foreign.Protocol, more int) { s.conns.Add(int32(more)) }
	if l.Stall > 0 {
		s.Stall = l.Stall
	}
	p := NewServer(l)
	masterv1.RegisterMasterServiceServer(p, e)
	s.Register(foreign.Lean, p)
	return s
}

// serveBoth serves e on a listener over both framings, until the test ends.
func serveBoth(t *testing.T, ln net.Listener, s *server, e *echo, o ...grpc.ServerOption) {
	g := grpc.NewServer(o...)
	masterv1.RegisterMasterServiceServer(g, e)
	split := s.Split(ln)
	var serving sync.WaitGroup
	serving.Go(func() { _ = g.Serve(split) })
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patient)
		defer cancel()
		g.Stop()
		s.Stop(ctx)
		serving.Wait()
	})
}

func dial(t *testing.T, addr string, o ClientOptions) (*Client, masterv1.MasterServiceClient) {
	t.Helper()
	c := NewClient(addr, o)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c, masterv1.NewMasterServiceClient(c)
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	t.Cleanup(cancel)
	return ctx
}

// TestAnswersFitTheirCalls: many callers over one connection, of all sizes around those of
// the buffers.
func TestAnswersFitTheirCalls(t *testing.T) {
	addr, _ := serve(t, &echo{}, framed.Limits{})
	_, rpc := dial(t, addr, ClientOptions{})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 40 {
				n := 1 + (i*40+j)*7
				if j%20 == 0 {
					n = 3*readBuffer/40 + i // An answer above the buffers.
				}
				keys := make([][]byte, n)
				for k := range keys {
					keys[k] = make([]byte, k%50)
				}
				r, err := rpc.Exist(within(t), &masterv1.ExistRequest{Keys: keys})
				if !assert.NoError(t, err) || !assert.Len(t, r.GetErrors(), n) {
					return
				}
				for k, e := range r.GetErrors() {
					if int(e.GetIndex()) != k%50 {
						t.Errorf("answer %d of %d is %d", k, n, e.GetIndex())
						return
					}
				}
			}
		})
	}
	all.Wait()
}

// TestBothOnOnePort: gRPC is served beside it, and on the same port.
func TestBothOnOnePort(t *testing.T) {
	e := &echo{}
	addr, _ := serve(t, e, framed.Limits{})
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	_, lean := dial(t, addr, ClientOptions{})
	for i, rpc := range []masterv1.MasterServiceClient{masterv1.NewMasterServiceClient(conn), lean} {
		_, err := rpc.Exist(within(t), &masterv1.ExistRequest{Keys: [][]byte{{1}}})
		require.NoError(t, err)
		require.EqualValues(t, i+1, e.calls.Load())
	}
}

// TestAServerThatSpeaksOnlyGRPC is used through the fallback.
func TestAServerThatSpeaksOnlyGRPC(t *testing.T) {
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	e := &echo{}
	g := grpc.NewServer()
	masterv1.RegisterMasterServiceServer(g, e)
	var serving sync.WaitGroup
	serving.Go(func() { _ = g.Serve(ln) })
	defer serving.Wait()
	defer g.Stop()
	conn, err := grpc.NewClient("passthrough:///"+ln.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	_, rpc := dial(t, ln.Addr().String(), ClientOptions{Fallback: conn, ConnectTimeout: patient})
	for range 3 {
		_, err = rpc.Exist(within(t), &masterv1.ExistRequest{Keys: [][]byte{{1}}})
		require.NoError(t, err)
	}
	require.EqualValues(t, 3, e.calls.Load())
	_, without := dial(t, ln.Addr().String(), ClientOptions{ConnectTimeout: patient})
	_, err = without.Exist(within(t), &masterv1.ExistRequest{})
	require.Equal(t, codes.FailedPrecondition, status.Code(err), "%v", err)
	require.ErrorIs(t, err, errs.ErrForeign)
	require.ErrorContains(t, err, "is a gRPC server")
}

func TestStatusesArrive(t *testing.T) {
	e := &echo{}
	addr, _ := serve(t, e, framed.Limits{Frame: 1 << 20})
	_, rpc := dial(t, addr, ClientOptions{Limits: framed.Limits{Frame: 1 << 20}})
	for want, err := range map[codes.Code]error{
		codes.OK:               nil,
		codes.NotFound:         status.Error(codes.NotFound, "it is not there"),
		codes.Unauthenticated:  status.Error(codes.Unauthenticated, "who are you"),
		codes.DeadlineExceeded: context.DeadlineExceeded,
		codes.Canceled:         context.Canceled,
		codes.Unknown:          os.ErrNotExist,
	} {
		e.ready = func(context.Context) (string, error) { return "x", err }
		_, got := rpc.Ready(within(t), &masterv1.ReadyRequest{})
		require.Equal(t, want, status.Code(got), "%v", got)
		if err != nil {
			require.ErrorContains(t, got, status.Convert(err).Message())
		}
	}
	e.ready = func(context.Context) (string, error) { return strings.Repeat("x", 2<<20), nil }
	_, err := rpc.Ready(within(t), &masterv1.ReadyRequest{})
	require.Equal(t, codes.ResourceExhausted, status.Code(err), "an answer that is too large: %v", err)
	_, err = rpc.Exist(within(t), &masterv1.ExistRequest{Keys: [][]byte{make([]byte, 2<<20)}})
	require.Equal(t, codes.ResourceExhausted, status.Code(err), "a request that is too large: %v", err)
	_, err = rpc.Ping(within(t), &masterv1.PingRequest{})
	require.Equal(t, codes.Unimplemented, status.Code(err), "%v", err)
	require.EqualValues(t, 0, e.calls.Load())
	_, err = rpc.Exist(within(t), &masterv1.ExistRequest{})
	require.NoError(t, err, "the connection is still good")
}

// TestGivingUpReachesTheServer: by a cancelled context at once, and by a deadline in any case.
func TestGivingUpReachesTheServer(t *testing.T) {
	began, ended := make(chan struct{}, 1), make(chan error, 1)
	e := &echo{ready: func(ctx context.Context) (string, error) {
		began <- struct{}{}
		<-ctx.Done()
		ended <- ctx.Err()
		return "", ctx.Err()
	}}
	addr, _ := serve(t, e, framed.Limits{})
	_, rpc := dial(t, addr, ClientOptions{})
	ctx, cancel := context.WithCancel(within(t))
	result := make(chan error, 1)
	go func() { _, err := rpc.Ready(ctx, &masterv1.ReadyRequest{}); result <- err }()
	<-began
	cancel()
	require.Equal(t, codes.Canceled, status.Code(<-result))
	require.ErrorIs(t, <-ended, context.Canceled)

	ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := rpc.Ready(ctx, &masterv1.ReadyRequest{})
	require.Equal(t, codes.DeadlineExceeded, status.Code(err))
	select { // It may have passed before the call was on its way.
	case <-began:
		require.Error(t, <-ended)
	default:
	}
}

// TestGivingUpAtOnceReachesTheServer: also right behind the call.
func TestGivingUpAtOnceReachesTheServer(t *testing.T) {
	const n = 500
	ended := make(chan struct{}, n)
	e := &echo{ready: func(ctx context.Context) (string, error) {
		<-ctx.Done()
		ended <- struct{}{}
		return "", ctx.Err()
	}}
	addr, _ := serve(t, e, framed.Limits{})
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	require.NoError(t, err)
	defer conn.Close()
	method := masterv1.MasterService_Ready_FullMethodName
	all := []byte(preface)
	for i := range uint32(n) {
		call := append(begin(nil, head{call: i + 1, kind: kindCall, small: uint8(len(method))}), method...)
		seal(call)
		all = append(append(all, call...), bare(head{call: i + 1, kind: kindGiveUp})...)
	}
	_, err = conn.Write(all)
	require.NoError(t, err)
	for i := range n {
		select {
		case <-ended:
		case <-time.After(patient):
			t.Fatalf("%d of %d calls did not hear of it", n-i, n)
		}
	}
}

// TestWhoHasLeftSendsNothing: a call that may change something is not made for a context
// that has ended, even where the answer would be quicker than the look at it.
func TestWhoHasLeftSendsNothing(t *testing.T) {
	e := &echo{}
	addr, _ := serve(t, e, framed.Limits{})
	_, c := dial(t, addr, ClientOptions{})
	_, err := c.Exist(within(t), &masterv1.ExistRequest{})
	require.NoError(t, err)
	left, leave := context.WithCancel(t.Context())
	leave()
	for range 100 {
		_, err = c.Exist(left, &masterv1.ExistRequest{})
		require.Equal(t, codes.Canceled, status.Code(err))
	}
	_, err = c.Exist(within(t), &masterv1.ExistRequest{}) // Behind what was sent, if anything was.
	require.NoError(t, err)
	assert.EqualValues(t, 2, e.calls.Load())
}

// keeping is a listener that can break its connections.
type keeping struct {
	net.Listener
	mu    sync.Mutex
	conns []*os.File
}

func (k *keeping) Accept() (net.Conn, error) {
	conn, err := k.Listener.Accept()
	if tcp, ok := conn.(*net.TCPConn); ok {
		f, err := tcp.File()
		if err != nil {
			return nil, err
		}
		k.mu.Lock()
		k.conns = append(k.conns, f)
		k.mu.Unlock()
	}
	return conn, err
}

func (k *keeping) breakAll(t *testing.T) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, f := range k.conns {
		raw, err := f.SyscallConn()
		require.NoError(t, err)
		require.NoError(t, raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) }))
		require.NoError(t, f.Close())
	}
	k.conns = nil
}

// TestAServerThatGoesAway: calls in flight fail, and the next ones find the new server.
func TestAServerThatGoesAway(t *testing.T) {
	began := make(chan struct{}, 1)
	hang := func(ctx context.Context) (string, error) { began <- struct{}{}; <-ctx.Done(); return "", ctx.Err() }
	e := &echo{ready: hang}
	ln := &keeping{Listener: listen(t)}
	serveBoth(t, ln, newServer(e, framed.Limits{}), e)
	_, rpc := dial(t, ln.Addr().String(), ClientOptions{RetryMin: time.Millisecond, RetryMax: time.Millisecond})
	result := make(chan error, 1)
	go func() { _, err := rpc.Ready(within(t), &masterv1.ReadyRequest{}); result <- err }()
	<-began
	ln.breakAll(t)
	defer ln.breakAll(t)
	require.Equal(t, codes.Unavailable, status.Code(<-result))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		_, err := rpc.Exist(within(t), &masterv1.ExistRequest{})
		assert.NoError(c, err)
	}, patient, time.Millisecond)
}

// TestIdleConnectionsEnd: the client is told first, so that no call is lost in between.
func TestIdleConnectionsEnd(t *testing.T) {
	e := &echo{}
	addr, s := serve(t, e, framed.Limits{Idle: time.Millisecond})
	_, rpc := dial(t, addr, ClientOptions{})
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for j := range 200 {
				if _, err := rpc.Exist(within(t), &masterv1.ExistRequest{}); !assert.NoError(t, err) {
					return
				}
				if (i+j)%7 == 0 {
					time.Sleep(time.Duration(i+1) * time.Millisecond) // Some of these are long enough to be idle.
				}
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 800, e.calls.Load())
	require.Eventually(t, func() bool { return s.conns.Load() == 0 }, patient, time.Millisecond)
	_, err := rpc.Exist(within(t), &masterv1.ExistRequest{})
	require.NoError(t, err)
}

func TestStopWaitsForCalls(t *testing.T) {
	began, goOn := make(chan struct{}), make(chan struct{})
	e := &echo{ready: func(context.Context) (string, error) { close(began); <-goOn; return "done", nil }}
	addr, s := serve(t, e, framed.Limits{})
	_, rpc := dial(t, addr, ClientOptions{})
	result := make(chan string, 1)
	go func() {
		r, err := rpc.Ready(within(t), &masterv1.ReadyRequest{})
		result <- fmt.Sprint(r.GetVersion(), err)
	}()
	<-began
	_, err := rpc.Exist(within(t), &masterv1.ExistRequest{}) // Another goroutine reads now, which sees the stop at once.
	require.NoError(t, err)
	stopped := make(chan struct{})
	_, other := dial(t, addr, ClientOptions{RetryMin: time.Hour, RetryMax: time.Hour})
	_, err = other.Exist(within(t), &masterv1.ExistRequest{})
	require.NoError(t, err)
	go func() { s.Stop(within(t)); close(stopped) }()
	require.Eventually(t, func() bool { return s.conns.Load() == 1 }, patient, time.Millisecond, "the idle one ends")
	close(goOn)
	require.Equal(t, "done<nil>", <-result)
	<-stopped
}

func TestStopCutsOffWhatHangs(t *testing.T) {
	began, ended := make(chan struct{}), make(chan error, 1)
	e := &echo{ready: func(ctx context.Context) (string, error) {
		close(began)
		<-ctx.Done()
		ended <- ctx.Err()
		return "", ctx.Err()
	}}
	addr, s := serve(t, e, framed.Limits{})
	_, rpc := dial(t, addr, ClientOptions{})
	result := make(chan error, 1)
	go func() { _, err := rpc.Ready(within(t), &masterv1.ReadyRequest{}); result <- err }()
	<-began
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.Stop(ctx)
	require.Error(t, <-result)
	require.ErrorIs(t, <-ended, context.Canceled)
}

// BenchmarkCall is a look-up of one key, by framing, over loopback.
func BenchmarkCall(b *testing.B) {
	ln, err := new(net.ListenConfig).Listen(b.Context(), "tcp", "127.0.0.1:0")
	require.NoError(b, err)
	e := &echo{}
	s := newServer(e, framed.Limits{})
	g := grpc.NewServer()
	masterv1.RegisterMasterServiceServer(g, e)
	go func() { _ = g.Serve(s.Split(ln)) }()
	defer s.Stop(b.Context())
	defer g.Stop()
	conn, err := grpc.NewClient("passthrough:///"+ln.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(b, err)
	defer conn.Close()
	lean := NewClient(ln.Addr().String(), ClientOptions{})
	defer lean.Close()
	for name, cc := range map[string]grpc.ClientConnInterface{"grpc": conn, "lean": lean} {
		rpc := masterv1.NewMasterServiceClient(cc)
		for _, keys := range []int{1, 128} {
			in := &masterv1.ExistRequest{Keys: make([][]byte, keys)}
			for i := range in.Keys {
				in.Keys[i] = make([]byte, 40)
			}
			b.Run(fmt.Sprintf("%s/%d", name, keys), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := rpc.Exist(b.Context(), in); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

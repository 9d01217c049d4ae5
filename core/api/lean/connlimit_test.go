package lean

import (
	"context"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/mooncake-go/mooncake/core/internal/framed"
	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"
)

// limiterLog collects what a server says about too many connections.
type limiterLog struct {
	mu   sync.Mutex
	told []framed.ConnClosed
}

func (c *limiterLog) add(x framed.ConnClosed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told = append(c.told, x)
}

// of returns what was told for a reason.
func (c *limiterLog) of(why framed.CloseReason) (list []framed.ConnClosed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range c.told {
		if x.Why == why {
			list = append(list, x)
		}
	}
	return list
}

// serveLimited is serve on a listener, with what the server tells of too many connections. Those that
// were not idle for a time stay where their host has no more than the new one's.
func serveLimited(t *testing.T, ln net.Listener, most int, idle time.Duration) *limiterLog {
	t.Helper()
	e, told := &echo{}, &limiterLog{}
	s := newServer(e, framed.Limits{})
	s.Conns, s.Awake, s.ConnClosed = most, idle, told.add
	serveBoth(t, ln, s, e)
	return told
}

func listen(t *testing.T) net.Listener {
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return ln
}

// from connects from an address of this host, and counts.
func from(host string, dials *atomic.Int32) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, addr string) (net.Conn, error) {
		dials.Add(1)
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(host)}}
		return d.DialContext(ctx, "tcp", addr)
	}
}

// visitor is a client at an address of its own.
type visitor struct {
	rpc   masterv1.MasterServiceClient
	dials atomic.Int32
}

func visit(t *testing.T, ln net.Listener, host string) *visitor {
	t.Helper()
	v := &visitor{}
	_, v.rpc = dial(t, ln.Addr().String(), ClientOptions{Dial: from(host, &v.dials)})
	v.call(t)
	return v
}

func (v *visitor) call(t *testing.T) {
	t.Helper()
	_, err := v.rpc.Exist(within(t), &masterv1.ExistRequest{Keys: [][]byte{{1}}})
	require.NoError(t, err)
}

// TestNewPeersGetIn: where all connections are there that may be, the longest idle one of the host
// with the most gives way, although another host's was idle for longer. Its client calls over a new
// one, without an error.
func TestNewPeersGetIn(t *testing.T) {
	ln := listen(t)
	told := serveLimited(t, ln, 4, 0)
	alone := visit(t, ln, "127.0.0.3")
	var many []*visitor
	for range 3 {
		many = append(many, visit(t, ln, "127.0.0.2"))
		time.Sleep(10 * time.Millisecond) // The system counts idle time in milliseconds.
	}
	late := visit(t, ln, "127.0.0.4")
	idle := told.of(framed.ClosedIdle)
	require.Len(t, idle, 1)
	require.Equal(t, "127.0.0.2", idle[0].Host.String())
	require.Equal(t, framed.ConnClosed{Why: framed.ClosedIdle, Host: idle[0].Host, OfHost: 2, Open: 4, Most: 4}, idle[0])

	require.Eventually(t, func() bool {
		many[0].call(t)
		return many[0].dials.Load() == 2
	}, patient, time.Millisecond, "it was the one that had to go")
	require.Len(t, told.of(framed.ClosedIdle), 2, "and another of its host goes for it")
	for _, v := range []*visitor{alone, late} {
		v.call(t)
		require.EqualValues(t, 1, v.dials.Load())
	}
	require.Empty(t, told.of(framed.Refused))
}

// TestBusyPeersStay: a host whose connections were all in use just now gets no further one.
func TestBusyPeersStay(t *testing.T) {
	ln := listen(t)
	told := serveLimited(t, ln, 1, time.Hour)
	v := visit(t, ln, "127.0.0.1")
	_, rpc := dial(t, ln.Addr().String(), ClientOptions{})
	_, err := rpc.Exist(within(t), &masterv1.ExistRequest{})
	require.Error(t, err)
	require.NotEmpty(t, told.of(framed.Refused))
	v.call(t)
	require.EqualValues(t, 1, v.dials.Load())
}

// TestAClientOfGRPCThatHadToGoComesBack without an error to its caller.
func TestAClientOfGRPCThatHadToGoComesBack(t *testing.T) {
	ln := listen(t)
	told := serveLimited(t, ln, 1, 0)
	conn, err := grpc.NewClient("passthrough:///"+ln.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	rpc := masterv1.NewMasterServiceClient(conn)
	for i := range 3 {
		_, err = rpc.Exist(within(t), &masterv1.ExistRequest{})
		require.NoError(t, err, "call %d", i)
		visit(t, ln, "127.0.0.1")
		require.True(t, conn.WaitForStateChange(within(t), connectivity.Ready))
	}
	require.Len(t, told.of(framed.ClosedIdle), 5, "one went for each that came, after the first")
}

// TestSlowPeersDoNotShutTheHandshake: of those that say nothing only so many stay.
func TestSlowPeersDoNotShutTheHandshake(t *testing.T) {
	ln := listen(t)
	told := serveLimited(t, ln, 64, 0)
	var silent []net.Conn
	defer func() {
		for _, c := range silent {
			assert.NoError(t, c.Close())
		}
	}()
	for range 40 {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", ln.Addr().String())
		require.NoError(t, err)
		if len(silent)%2 == 1 { // They begin the preface of package lean and no more.
			_, err = conn.Write([]byte(preface[:6]))
			require.NoError(t, err)
		}
		silent = append(silent, conn)
	}
	visit(t, ln, "127.0.0.1")
	require.Len(t, told.of(framed.ClosedHalfOpen), 40+1-64/4)
	for i, conn := range silent {
		if i > 40-64/4 {
			break
		}
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(patient)))
		_, err := conn.Read(make([]byte, 1))
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the oldest were closed, this is %d", i)
		require.Error(t, err)
	}
}

// exhausted is a listener of a process without file descriptors, for as long as it is told so.
type exhausted struct {
	net.Listener
	none atomic.Int32
}

func (e *exhausted) Accept() (net.Conn, error) {
	if e.none.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return e.Listener.Accept()
}

// TestWithoutDescriptors: a connection is closed so that another can be accepted, which is told.
func TestWithoutDescriptors(t *testing.T) {
	ln := &exhausted{Listener: listen(t)}
	told := serveLimited(t, ln, 0, 0)
	first := visit(t, ln, "127.0.0.1")
	time.Sleep(10 * time.Millisecond) // The system counts idle time in milliseconds.
	ln.none.Store(1)
	visit(t, ln, "127.0.0.1") // The accept before it was in progress already.
	visit(t, ln, "127.0.0.1")
	require.Equal(t, []framed.ConnClosed{{Why: framed.ClosedIdle, Host: netip.MustParseAddr("127.0.0.1"), OfHost: 1, Open: 1, Descriptors: true}}, told.of(framed.ClosedIdle))
	require.Eventually(t, func() bool {
		_, err := first.rpc.Exist(within(t), &masterv1.ExistRequest{})
		return err == nil && first.dials.Load() == 2
	}, patient, time.Millisecond)
}

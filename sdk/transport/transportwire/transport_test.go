package transportwire

import (
	"bytes"
	"context"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/internal/memwire"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	pluginv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/plugin/v1"
	transportv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/transport/v1"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/wire"
	"github.com/mooncake-go/mooncake/sdk/x/shm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fibber is a plugin program that answers what it likes.
type fibber struct {
	pluginv1.UnimplementedLifecycleServiceServer
	transportv1.UnimplementedTransportServiceServer
	endpoint []byte
	key      []byte
	remote   uint64
	rails    []*transportv1.Rail
	reports  chan []byte
}

const fibberManifest = `{"mooncake_plugin_manifest":1,"kind":"transport","name":"fibber","version":"0.1.0","api":[1],"summary":"lies","stability":"beta","capabilities":["rails","local-any"]}`

func (*fibber) Describe(context.Context, *pluginv1.DescribeRequest) (*pluginv1.DescribeResponse, error) {
	return &pluginv1.DescribeResponse{ManifestJson: []byte(fibberManifest)}, nil
}
func (*fibber) Start(context.Context, *pluginv1.StartRequest) (*pluginv1.StartResponse, error) {
	return &pluginv1.StartResponse{}, nil
}
func (*fibber) Stop(context.Context, *pluginv1.StopRequest) (*pluginv1.StopResponse, error) {
	return &pluginv1.StopResponse{}, nil
}
func (l *fibber) Join(context.Context, *transportv1.JoinRequest) (*transportv1.JoinResponse, error) {
	return &transportv1.JoinResponse{Endpoint: &transportv1.Endpoint{Blob: l.endpoint}, Nonce: bytes.Repeat([]byte{1}, nonceSize)}, nil
}
func (*fibber) Share(context.Context, *transportv1.ShareRequest) (*transportv1.ShareResponse, error) {
	return &transportv1.ShareResponse{}, nil
}
func (l *fibber) Watch(_ *transportv1.WatchRequest, s grpc.ServerStreamingServer[transportv1.WatchResponse]) error {
	for {
		select {
		case b := <-l.reports:
			_ = s.Send(&transportv1.WatchResponse{Endpoint: &transportv1.Endpoint{Blob: b}})
		case <-s.Context().Done():
			return nil
		}
	}
}
func (l *fibber) Register(context.Context, *transportv1.RegisterRequest) (*transportv1.RegisterResponse, error) {
	return &transportv1.RegisterResponse{Key: l.key}, nil
}
func (l *fibber) Dial(context.Context, *transportv1.DialRequest) (*transportv1.DialResponse, error) {
	return &transportv1.DialResponse{Path: 1, Rails: l.rails}, nil
}
func (l *fibber) Import(context.Context, *transportv1.ImportRequest) (*transportv1.ImportResponse, error) {
	return &transportv1.ImportResponse{Remote: l.remote}, nil
}
func (*fibber) ClosePath(context.Context, *transportv1.ClosePathRequest) (*transportv1.ClosePathResponse, error) {
	return &transportv1.ClosePathResponse{}, nil
}

// deceiver is a fibber, or one with further habits.
type deceiver interface {
	pluginv1.LifecycleServiceServer
	transportv1.TransportServiceServer
}

// believe connects a client to a fibber; what reaches Kill comes over the channel.
func believe(t *testing.T, l deceiver) (*Client, <-chan string) {
	listener := bufconn.Listen(1 << 20)
	gs := grpc.NewServer()
	pluginv1.RegisterLifecycleServiceServer(gs, l)
	transportv1.RegisterTransportServiceServer(gs, l)
	done := make(chan struct{})
	go func() { defer close(done); _ = gs.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:fibber", append(wire.GRPCDialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))...)
	require.NoError(t, err)
	data, theirs, err := shm.Pair("test")
	require.NoError(t, err)
	killed := make(chan string, 1)
	client := NewClient(conn, wire.ClientOptions{ID: plugin.ID{Kind: "transport", Name: "fibber"}, Data: data, Kill: func(r string) { killed <- r }}, Options{})
	t.Cleanup(func() {
		client.Ended()
		_, _ = conn.Close(), data.Close()
		_ = theirs.Close()
		gs.Stop()
		<-done
	})
	return client, killed
}

// TestAnswersThatCannotBe: each ends the process, and nothing of it is used.
func TestAnswersThatCannotBe(t *testing.T) {
	blob := []byte("here")
	mem, err := shm.Create("test", 4096)
	require.NoError(t, err)
	t.Cleanup(func() { _ = mem.Close() })
	for name, c := range map[string]struct {
		l    fibber
		do   func(*Client, *fibber) error
		want string
	}{
		"no endpoint":    {fibber{}, func(tr *Client, _ *fibber) error { return tr.Start(t.Context(), nil) }, "join"},
		"a huge message": {fibber{endpoint: make([]byte, 5<<20)}, func(tr *Client, _ *fibber) error { return tr.Start(t.Context(), nil) }, "received message larger"},
		"no key": {fibber{endpoint: blob}, func(tr *Client, _ *fibber) error {
			_, err := tr.Register(t.Context(), transport.Region{ID: 1, Mem: mem.Bytes(), FD: mem.FD()})
			return err
		}, "a key of 0 bytes"},
		"a long key": {fibber{endpoint: blob, key: make([]byte, 5000)}, func(tr *Client, _ *fibber) error {
			_, err := tr.Register(t.Context(), transport.Region{ID: 1, Mem: mem.Bytes(), FD: mem.FD()})
			return err
		}, "a key of 5000 bytes"},
		"rail 0": {fibber{endpoint: blob, rails: []*transportv1.Rail{{}}}, func(tr *Client, _ *fibber) error {
			_, err := tr.Dial(t.Context(), transport.Endpoint{Blob: blob})
			return err
		}, "a rail with the ID 0"},
		"remote 0": {fibber{endpoint: blob}, func(tr *Client, _ *fibber) error {
			p, err := tr.Dial(t.Context(), transport.Endpoint{Blob: blob})
			require.NoError(t, err)
			_, err = p.Import(t.Context(), transport.Key("k"))
			return err
		}, "the remote 0"},
		"a report without endpoint": {fibber{endpoint: blob, reports: make(chan []byte, 1)}, func(_ *Client, l *fibber) error {
			l.reports <- nil
			return errs.WithClass(errs.ClassTransientPath, "", os.ErrInvalid)
		}, "watch"},
	} {
		t.Run(name, func(t *testing.T) {
			client, killed := believe(t, &c.l)
			if !strings.Contains("no endpoint, a huge message", name) {
				require.NoError(t, client.Start(t.Context(), nil))
				assert.Equal(t, "staging", client.Figures()["foreign"], "a nonce that was not read proves nothing")
			}
			err := c.do(client, &c.l)
			require.Error(t, err)
			assert.Equal(t, errs.ClassTransientPath, errs.ClassOf(err))
			select {
			case reason := <-killed:
				assert.Contains(t, reason, c.want)
			case <-time.After(time.Minute):
				t.Fatal("Kill was not called")
			}
			_, err = client.Dial(t.Context(), transport.Endpoint{Blob: blob})
			assert.Equal(t, errs.ClassTransientPath, errs.ClassOf(err))
		})
	}
}

// TestRegionsCannotBeCutShort: the plugin gets the descriptor of a region, and a file that it
// could shrink would end this process at the next touch.
func TestRegionsCannotBeCutShort(t *testing.T) {
	l := &fibber{endpoint: []byte("here"), key: []byte("key")}
	client, _ := believe(t, l)
	require.NoError(t, client.Start(t.Context(), nil))
	for name, flags := range map[string]int{"sealed by us": unix.MFD_ALLOW_SEALING, "cannot be sealed": 0} {
		fd, err := unix.MemfdCreate("region", unix.MFD_CLOEXEC|flags)
		require.NoError(t, err)
		t.Cleanup(func() { _ = unix.Close(fd) })
		require.NoError(t, unix.Ftruncate(fd, 4096))
		_, err = client.Register(t.Context(), transport.Region{ID: 1, Mem: make([]byte, 4096), FD: fd})
		if flags == 0 {
			require.Equal(t, errs.InvalidParams, errs.CodeOf(err), name)
			continue
		}
		require.NoError(t, err, name)
		require.ErrorIs(t, unix.Ftruncate(fd, 0), unix.EPERM, "as a plugin would")
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_FUTURE_WRITE)
		require.ErrorIs(t, err, unix.EPERM, "its next process could not map it")
		client.host.Remove(1)
	}
}

func openFDs(t *testing.T) int {
	all, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(all)
}

func TestWithoutASocketForDescriptors(t *testing.T) {
	client := NewClient(nil, wire.ClientOptions{ID: plugin.ID{Kind: "transport", Name: "x"}}, Options{})
	require.ErrorIs(t, client.Start(t.Context(), nil), errs.NotSupported.Err())
	_, err := client.Dial(t.Context(), transport.Endpoint{})
	require.ErrorIs(t, err, errs.UnavailableInCurrentStatus.Err())
	client.Ended()
}

func dup(fd int) (int, error) { return unix.Dup(fd) }

// stubborn fails to close paths more times; if more is negative, always.
type stubborn struct {
	fibber
	mu   sync.Mutex
	more int
	last uint64
}

func (l *stubborn) Dial(context.Context, *transportv1.DialRequest) (*transportv1.DialResponse, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	return &transportv1.DialResponse{Path: l.last}, nil
}

func (l *stubborn) ClosePath(context.Context, *transportv1.ClosePathRequest) (*transportv1.ClosePathResponse, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.more == 0 {
		return &transportv1.ClosePathResponse{}, nil
	}
	l.more--
	return nil, wire.ToStatus(errs.New(errs.UnavailableInCurrentStatus, "", "not now"))
}

// TestPathsThatAreNotClosed cost descriptors of the host: a plugin that closes none is
// ended while they are few, and they are free when it has ended.
func TestPathsThatAreNotClosed(t *testing.T) {
	l := &stubborn{fibber: fibber{endpoint: []byte("here")}, more: -1}
	client, killed := believe(t, l)
	require.NoError(t, client.Start(t.Context(), nil))
	before := openFDs(t)
	dials := 0
	for ; dials < 100; dials++ {
		p, err := client.Dial(t.Context(), transport.Endpoint{Blob: []byte("there")})
		if err != nil {
			break
		}
		require.Error(t, p.Close(t.Context()))
		require.Error(t, p.Close(t.Context()), "and it counts once")
	}
	require.Equal(t, maxUnclosed+1, dials)
	assert.LessOrEqual(t, openFDs(t), before+5*(maxUnclosed+1))
	assert.Contains(t, <-killed, "did not close 17 paths")
	client.Ended()
	require.Eventually(t, func() bool { return openFDs(t) <= before }, time.Minute, time.Millisecond)
}

// TestPathsThatAreClosedLate are forgiven.
func TestPathsThatAreClosedLate(t *testing.T) {
	l := &stubborn{fibber: fibber{endpoint: []byte("here")}}
	client, killed := believe(t, l)
	require.NoError(t, client.Start(t.Context(), nil))
	before := openFDs(t)
	for range 2 * maxUnclosed {
		p, err := client.Dial(t.Context(), transport.Endpoint{Blob: []byte("there")})
		require.NoError(t, err)
		l.mu.Lock()
		l.more = 1
		l.mu.Unlock()
		require.Error(t, p.Close(t.Context()))
		require.NoError(t, p.Close(t.Context()))
	}
	assert.LessOrEqual(t, openFDs(t), before)
	assert.Empty(t, killed)
}

// slow answers when the test lets it.
type slow struct {
	fibber
	come chan struct{} // a call has arrived
	let  chan error    // its answer
}

func (l *slow) wait() error {
	l.come <- struct{}{}
	return <-l.let
}

func (l *slow) ClosePath(context.Context, *transportv1.ClosePathRequest) (*transportv1.ClosePathResponse, error) {
	return &transportv1.ClosePathResponse{}, l.wait()
}

func (l *slow) Deregister(context.Context, *transportv1.DeregisterRequest) (*transportv1.DeregisterResponse, error) {
	return &transportv1.DeregisterResponse{}, l.wait()
}

func (l *slow) Share(context.Context, *transportv1.ShareRequest) (*transportv1.ShareResponse, error) {
	return &transportv1.ShareResponse{}, l.wait()
}

// TestAbandonedCalls checks that a call whose caller stops waiting still completes, and that a
// caller that repeats it gets the result of the first call.
func TestAbandonedCalls(t *testing.T) {
	l := &slow{fibber: fibber{endpoint: []byte("here"), key: []byte("key")}, come: make(chan struct{}), let: make(chan error)}
	client, _ := believe(t, l)
	go func() { <-l.come; l.let <- nil }() // Share
	require.NoError(t, client.Start(t.Context(), nil))
	before := openFDs(t)
	p, err := client.Dial(t.Context(), transport.Endpoint{Blob: []byte("there")})
	require.NoError(t, err)
	mem, err := shm.Create("test", 4096)
	require.NoError(t, err)
	t.Cleanup(func() { _ = mem.Close() })
	region := transport.Region{ID: 1, Mem: mem.Bytes(), FD: mem.FD()}

	abandon := func(call func(context.Context) error) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { <-l.come; cancel() }()
		require.ErrorIs(t, call(ctx), context.Canceled)
	}
	deregister := func(ctx context.Context) error { return client.Deregister(ctx, 1) }
	abandon(p.Close)
	l.let <- nil
	require.Eventually(t, func() bool { return openFDs(t) <= before+1 }, time.Minute, time.Millisecond, "1 is the memory")
	require.NoError(t, p.Close(t.Context()), "the plugin is not called again")

	_, err = client.Register(t.Context(), region)
	require.NoError(t, err)
	abandon(deregister)
	_, err = client.Register(t.Context(), region)
	require.Equal(t, errs.InvalidParams, errs.CodeOf(err), "it is still there")
	go func() { l.let <- wire.ToStatus(errs.New(errs.UnavailableInCurrentStatus, "", "not now")) }()
	require.Error(t, client.Deregister(t.Context(), 1), "the abandoned call failed")
	abandon(deregister)
	l.let <- nil
	require.NoError(t, client.Deregister(t.Context(), 1), "it had succeeded meanwhile")
	_, err = client.Register(t.Context(), region)
	require.NoError(t, err)
}

// ledger is a transport that records its registered regions.
type ledger struct {
	transport.Transport
	has map[transport.RegionID]transport.Region
}

func (l *ledger) Register(_ context.Context, r transport.Region) (transport.Key, error) {
	if _, used := l.has[r.ID]; used {
		return nil, errs.New(errs.InvalidParams, "", "region %d is registered", r.ID)
	}
	l.has[r.ID] = r
	return transport.Key("key"), nil
}

func (l *ledger) Deregister(_ context.Context, id transport.RegionID) error {
	if _, known := l.has[id]; !known {
		return errs.New(errs.InvalidParams, "", "region %d is not registered", id)
	}
	delete(l.has, id)
	return nil
}

// TestRepeatedCalls checks that the host may repeat calls whose answers were lost.
func TestRepeatedCalls(t *testing.T) {
	before := openFDs(t)
	l := &ledger{has: map[transport.RegionID]transport.Region{}}
	s := &server{
		op: "test", object: func() (transport.Transport, error) { return l, nil }, inbox: memwire.NewInbox(), sharing: make(chan struct{}, 1),
		regions: map[transport.RegionID]*heldRegion{},
	}
	give := func(token uint64, fill byte) {
		mem, err := shm.Create("test", 4096)
		require.NoError(t, err)
		mem.Bytes()[0] = fill
		fd, err := dup(mem.FD())
		require.NoError(t, err)
		require.NoError(t, mem.Close())
		s.inbox.Put(token, []int{fd})
	}
	for i := range byte(3) {
		give(uint64(i), i)
		_, err := s.Share(t.Context(), &transportv1.ShareRequest{Token: uint64(i), Bytes: 4096})
		require.NoError(t, err)
		require.Equal(t, i, l.has[stageID].Mem[0], "the last one counts")
	}
	assert.Equal(t, 1, s.areas.Count())
	give(7, 1)
	_, err := s.Register(t.Context(), &transportv1.RegisterRequest{Token: 7, Region: 5, Bytes: 4096})
	require.NoError(t, err)
	for range 3 {
		_, err := s.Deregister(t.Context(), &transportv1.DeregisterRequest{Region: 5})
		require.NoError(t, err)
	}
	assert.Len(t, l.has, 1)
	assert.NoError(t, s.unshare(t.Context(), l))
	assert.Zero(t, s.areas.Count())
	assert.Empty(t, l.has)
	assert.LessOrEqual(t, openFDs(t), before)
}

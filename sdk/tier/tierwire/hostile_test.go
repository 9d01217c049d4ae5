package tierwire

import (
	"context"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/internal/memwire"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	pluginv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/plugin/v1"
	tierv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/tier/v1"
	"github.com/mooncake-go/mooncake/sdk/tier"
	"github.com/mooncake-go/mooncake/sdk/wire"
	"github.com/mooncake-go/mooncake/sdk/x/shm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fibber is a plugin program that answers what it likes.
type fibber struct {
	pluginv1.UnimplementedLifecycleServiceServer
	tierv1.UnimplementedTierServiceServer
	volume *tierv1.Volume // nil for one that can be
	found  []*tierv1.Found
	// answers are the completions of each operation.
	answers func(*tierv1.Op) []*tierv1.Completion
}

func (*fibber) Start(context.Context, *pluginv1.StartRequest) (*pluginv1.StartResponse, error) {
	return &pluginv1.StartResponse{}, nil
}

func (*fibber) Stop(context.Context, *pluginv1.StopRequest) (*pluginv1.StopResponse, error) {
	return &pluginv1.StopResponse{}, nil
}

func (l *fibber) Volume(context.Context, *tierv1.VolumeRequest) (*tierv1.VolumeResponse, error) {
	if l.volume == nil {
		return &tierv1.VolumeResponse{Volume: &tierv1.Volume{Id: make([]byte, 16), MaxRecord: 1 << 20, Align: 1}}, nil
	}
	return &tierv1.VolumeResponse{Volume: l.volume}, nil
}

func (*fibber) Register(context.Context, *tierv1.RegisterRequest) (*tierv1.RegisterResponse, error) {
	return &tierv1.RegisterResponse{}, nil
}

func (*fibber) Deregister(context.Context, *tierv1.DeregisterRequest) (*tierv1.DeregisterResponse, error) {
	return &tierv1.DeregisterResponse{}, nil
}

func (l *fibber) Scan(context.Context, *tierv1.ScanRequest) (*tierv1.ScanResponse, error) {
	return &tierv1.ScanResponse{Found: l.found}, nil
}

func (l *fibber) Operate(stream grpc.BidiStreamingServer[tierv1.OperateRequest, tierv1.OperateResponse]) error {
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		for _, o := range m.GetOps() {
			if err := stream.Send(&tierv1.OperateResponse{Completions: l.answers(o)}); err != nil {
				return err
			}
		}
	}
}

// victim is a client of a fibber.
type victim struct {
	*Client
	t      *testing.T
	killed chan string // what reaches Kill
	mem    *shm.Memory
	die    func() // ends the process of the fibber
}

func believe(t *testing.T, l *fibber, o Options) *victim {
	listener := bufconn.Listen(1 << 20)
	gs := grpc.NewServer()
	pluginv1.RegisterLifecycleServiceServer(gs, l)
	tierv1.RegisterTierServiceServer(gs, l)
	done := make(chan struct{})
	go func() { defer close(done); _ = gs.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:fibber", append(wire.GRPCDialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))...)
	require.NoError(t, err)
	data, theirs, err := shm.Pair("test")
	require.NoError(t, err)
	v := &victim{t: t, killed: make(chan string, 1), die: gs.Stop}
	v.mem, err = shm.Create("test", 1<<16)
	require.NoError(t, err)
	v.Client = NewClient(conn, wire.ClientOptions{ID: plugin.ID{Kind: plugin.KindTier, Name: "fibber"}, Data: data, Kill: func(r string) { v.killed <- r }}, o)
	t.Cleanup(func() {
		gs.Stop()
		<-done
		v.Ended()
		_, _, _, _ = conn.Close(), data.Close(), theirs.Close(), v.mem.Close()
	})
	return v
}

// start starts the tier with one region.
func (v *victim) start() *victim {
	v.t.Helper()
	require.NoError(v.t, v.Start(v.t.Context(), nil))
	require.NoError(v.t, v.Register(v.t.Context(), tier.Region{ID: 1, Mem: v.mem.Bytes(), FD: v.mem.FD()}))
	return v
}

func (v *victim) op(id uint64, kind tier.Kind) tier.Op {
	return tier.Op{ID: id, Kind: kind, Record: tier.Record{Key: []byte("k"), Size: 100}, Local: [][]byte{v.mem.Bytes()[:100]}}
}

func (v *victim) submit(ops ...tier.Op) {
	v.t.Helper()
	n, err := v.Submit(ops)
	require.NoError(v.t, err)
	require.Equal(v.t, len(ops), n)
}

// reap reaps until n completions are there, and returns them by their operations.
func (v *victim) reap(n int) map[uint64][]tier.Completion {
	v.t.Helper()
	out, dst := map[uint64][]tier.Completion{}, make([]tier.Completion, n)
	for n > 0 {
		k, err := v.Reap(v.t.Context(), dst[:n])
		require.NoError(v.t, err)
		for _, c := range dst[:k] {
			out[c.ID] = append(out[c.ID], c)
		}
		n -= k
	}
	return out
}

// TestCompletionsThatCannotBe: each ends the process, and the operation completes after its end.
func TestCompletionsThatCannotBe(t *testing.T) {
	at, failure := &tierv1.Locator{A: 1}, &pluginv1.Error{Code: int32(errs.FileReadFail)}
	for name, c := range map[string]struct {
		kind tier.Kind
		is   []*tierv1.Completion
		want string
	}{
		"another operation":           {tier.Read, []*tierv1.Completion{{Number: 2, Status: uint32(tier.OK)}}, "not in flight"},
		"no status":                   {tier.Read, []*tierv1.Completion{{Number: 1}}, "status 0"},
		"an unknown status":           {tier.Read, []*tierv1.Completion{{Number: 1, Status: 256 + uint32(tier.OK)}}, "status 257"},
		"OK with an error":            {tier.Read, []*tierv1.Completion{{Number: 1, Status: uint32(tier.OK), Error: failure}}, "status 1"},
		"a read with a locator":       {tier.Read, []*tierv1.Completion{{Number: 1, Status: uint32(tier.OK), At: at}}, "status 1"},
		"a write without a locator":   {tier.Write, []*tierv1.Completion{{Number: 1, Status: uint32(tier.OK)}}, "status 1"},
		"a write that is verified":    {tier.Write, []*tierv1.Completion{{Number: 1, Status: uint32(tier.OK), At: at, Verified: true}}, "status 1"},
		"failed without an error":     {tier.Read, []*tierv1.Completion{{Number: 1, Status: uint32(tier.Failed)}}, "status 2"},
		"failed with a locator":       {tier.Write, []*tierv1.Completion{{Number: 1, Status: uint32(tier.Failed), Error: failure, At: at}}, "status 2"},
		"returned without quarantine": {tier.Read, []*tierv1.Completion{{Number: 1, Status: uint32(tier.Returned)}}, "status 4"},
	} {
		t.Run(name, func(t *testing.T) {
			v := believe(t, &fibber{answers: func(*tierv1.Op) []*tierv1.Completion { return c.is }}, Options{}).start()
			v.submit(v.op(9, c.kind))
			require.Contains(t, <-v.killed, c.want)
			over, cancel := context.WithCancel(t.Context())
			cancel()
			_, err := v.Reap(over, make([]tier.Completion, 1))
			require.ErrorIs(t, err, context.Canceled, "the process may still touch the memory")
			_, err = v.Submit([]tier.Op{v.op(10, c.kind)})
			require.ErrorIs(t, err, errs.UnavailableInCurrentStatus.Err())
			v.die()
			v.Ended()
			got := v.reap(1)[9]
			require.Len(t, got, 1)
			require.Equal(t, tier.Failed, got[0].Status)
			require.ErrorIs(t, got[0].Err, errs.UnavailableInCurrentStatus.Err())
			_, err = v.Reap(t.Context(), make([]tier.Completion, 1))
			require.ErrorIs(t, err, tier.ErrStopped)
		})
	}
}

// TestAnswersThatCannotBe: each ends the process, and nothing of it is used.
func TestAnswersThatCannotBe(t *testing.T) {
	record := &tierv1.Record{Key: []byte("k"), Size: 1}
	at := &tierv1.Locator{A: 1}
	for name, l := range map[string]*fibber{
		"a volume without an ID":   {volume: &tierv1.Volume{Align: 1}},
		"a volume of align 3":      {volume: &tierv1.Volume{Id: make([]byte, 16), Align: 3}},
		"too many records":         {found: []*tierv1.Found{{Record: record, At: at}, {Record: record, At: at}}},
		"a record without a key":   {found: []*tierv1.Found{{Record: &tierv1.Record{Size: 1}, At: at}}},
		"a record without a value": {found: []*tierv1.Found{{Record: &tierv1.Record{Key: []byte("k")}, At: at}}},
		"a record without a place": {found: []*tierv1.Found{{Record: record}}},
	} {
		t.Run(name, func(t *testing.T) {
			v := believe(t, l, Options{})
			err := v.Start(t.Context(), nil)
			if err == nil {
				_, _, err = v.Scan(t.Context(), tier.Cursor{}, make([]tier.Found, 1))
			}
			require.ErrorIs(t, err, errs.InvalidParams.Err())
			require.Contains(t, <-v.killed, "its answer to")
		})
	}
}

// TestSilence: a process that does not complete an operation is ended some time after the deadline.
func TestSilence(t *testing.T) {
	none := &fibber{answers: func(*tierv1.Op) []*tierv1.Completion { return nil }}
	v := believe(t, none, Options{Overdue: time.Millisecond}).start()
	o := v.op(1, tier.Read)
	o.Deadline = time.Now().Add(time.Millisecond)
	v.submit(o)
	require.Contains(t, <-v.killed, "after its deadline")

	v = believe(t, none, Options{Overdue: time.Millisecond, Limit: time.Millisecond}).start()
	v.submit(v.op(1, tier.Read)) // It has no deadline of its own.
	require.Contains(t, <-v.killed, "after its deadline")
}

// TestTheEndOfAProcess: what it completed counts, the rest fails, and memory is free only then.
func TestTheEndOfAProcess(t *testing.T) {
	v := believe(t, &fibber{answers: func(o *tierv1.Op) []*tierv1.Completion {
		switch c := (&tierv1.Completion{Number: o.GetNumber()}); tier.Kind(o.GetKind()) {
		case tier.Write:
			c.Status, c.At = uint32(tier.OK), &tierv1.Locator{D: 5}
			return []*tierv1.Completion{c}
		default:
			if o.GetUrgent() {
				return nil
			}
			c.Status, c.Error = uint32(tier.Quarantined), &pluginv1.Error{Code: int32(errs.RPCTimeout)}
			return []*tierv1.Completion{c}
		}
	}}, Options{}).start()
	urgent := v.op(3, tier.Read)
	urgent.Urgent = true
	v.submit(v.op(1, tier.Write), v.op(2, tier.Read), urgent)
	first := v.reap(2)
	require.Equal(t, []tier.Completion{{ID: 1, Status: tier.OK, At: tier.Locator{3: 5}}}, first[1])
	require.Equal(t, tier.Quarantined, first[2][0].Status)
	deregister := func() error {
		short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		return v.Deregister(short, 1)
	}
	require.Error(t, deregister(), "operations are in flight")
	v.die()
	require.Contains(t, <-v.killed, "its completions ended")
	require.Error(t, deregister(), "the process is not known to be gone")
	v.Ended()
	last := v.reap(2)
	require.Equal(t, []tier.Completion{{ID: 2, Status: tier.Returned}}, last[2])
	require.Equal(t, tier.Failed, last[3][0].Status)
	require.NoError(t, v.Deregister(t.Context(), 1))
	require.ErrorIs(t, v.Flush(t.Context()), errs.UnavailableInCurrentStatus.Err())
}

// TestMemoryThatCannotBeGiven: a plugin gets only memory files that cannot shrink.
func TestMemoryThatCannotBeGiven(t *testing.T) {
	v := believe(t, &fibber{}, Options{}).start()
	err := v.Register(t.Context(), tier.Region{ID: 2, Mem: make([]byte, 4096), FD: -1})
	require.ErrorIs(t, err, errs.InvalidParams.Err())
	require.ErrorContains(t, err, "has no descriptor")
	file, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	defer file.Close()
	err = v.Register(t.Context(), tier.Region{ID: 2, Mem: make([]byte, 4096), FD: int(file.Fd())})
	require.ErrorIs(t, err, errs.InvalidParams.Err())
	require.ErrorContains(t, err, "sealed")
	require.Equal(t, "1", v.Figures()["regions"])
	assert.ErrorIs(t, v.Deregister(t.Context(), 2), errs.InvalidParams.Err())
}

// TestAWipeWaitsForWhatWasSubmitted: operations come over a stream, and the call beside it.
func TestAWipeWaitsForWhatWasSubmitted(t *testing.T) {
	p := newPump(nil, &memwire.Areas{}, nil, slog.New(slog.DiscardHandler))
	ops := []*tierv1.Op{{Number: 1, Kind: uint32(tier.Read)}, {Number: 2, Kind: uint32(tier.Read)}}
	require.NoError(t, p.take(ops[:1]))
	over, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, p.overtake(over, 2), errs.RPCTimeout.Err())
	require.NoError(t, p.take(ops[1:]))
	require.NoError(t, p.overtake(over, 2))
	require.Error(t, p.take(ops[1:]), "operations are numbered")
}

// TestWithoutASocketForDescriptors: a host that cannot pass memory is told so.
func TestWithoutASocketForDescriptors(t *testing.T) {
	c := NewClient(nil, wire.ClientOptions{ID: plugin.ID{Kind: plugin.KindTier, Name: "x"}}, Options{})
	require.ErrorIs(t, c.Start(t.Context(), nil), errs.NotSupported.Err())
	c.Ended()
}

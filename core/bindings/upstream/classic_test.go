package upstream_test

import (
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/bindings/engine"
	"github.com/mooncake-go/mooncake/core/bindings/upstream"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestNumbers(t *testing.T) {
	for want, err := range map[int]error{
		0:   nil,
		1:   errs.New(errs.InvalidParams, "x", "y"),
		2:   fmt.Errorf("x: %w", transfer.ErrTooManyRequests),
		3:   errs.Wrap(errs.InvalidParams, "x", engine.ErrNotRegistered),
		4:   errs.Wrap(errs.UnavailableInCurrentStatus, "x", transfer.ErrBatchBusy),
		7:   errs.Wrap(errs.InvalidParams, "x", engine.ErrOverlap),
		8:   errs.New(errs.NotSupported, "x", "y"),
		200: errs.New(errs.RPCFail, "x", "y"),
		201: errs.New(errs.TransferFail, "x", "y"),
		202: errs.New(errs.Internal, "x", "y"),
	} {
		require.Equal(t, want, upstream.Status(err))
		require.Equal(t, -want, upstream.Result(err))
	}
}

func TestNumbersOfUnreachablePeers(t *testing.T) {
	refused := errs.Wrap(errs.RPCFail, "x", &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED})
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errs.New(errs.InvalidParams, "node name", "it has no host"), -101},
		{errs.Wrap(errs.RPCFail, "x", &net.DNSError{Name: "nowhere", IsNotFound: true}), -101},
		{refused, -102},
		{errs.New(errs.RPCTimeout, "x", "y"), -102},
		{errs.New(errs.Internal, "x", "y"), -202},
	} {
		require.Equal(t, c.want, upstream.Unreachable(c.err), "%v", c.err)
	}
}

// wait waits for the end of a request and returns it.
func wait(t *testing.T, e *upstream.Engine, id uint64, index int) transfer.State {
	t.Helper()
	var state transfer.State
	require.Eventually(t, func() bool {
		s, _, err := e.Status(id, index)
		require.NoError(t, err)
		state = s
		return s != transfer.Waiting
	}, time.Minute, time.Millisecond)
	return state
}

// move moves bytes in a batch of their own.
func move(t *testing.T, e *upstream.Engine, kind int, segment int32, local []byte, addr uint64) transfer.State {
	t.Helper()
	id, err := e.NewBatch(1)
	require.NoError(t, err)
	require.NoError(t, e.Submit(id, []upstream.Request{{Kind: kind, Segment: segment, Local: local, Addr: addr}}, nil))
	state := wait(t, e, id, 0)
	require.NoError(t, e.Free(id))
	return state
}

func TestSegments(t *testing.T) {
	far, near := made(t, true), made(t, true)
	mem := make([]byte, 4096)
	require.NoError(t, register(far, mem))
	name := nameOf(t, far)
	id, err := near.Open("/" + name)
	require.NoError(t, err)
	require.Equal(t, int32(1), id)
	for _, open := range []func(string) (int32, error){near.Open, near.OpenFresh} {
		again, err := open(name)
		require.NoError(t, err)
		require.Equal(t, id, again)
		own, err := open(nameOf(t, near))
		require.NoError(t, err)
		require.Equal(t, upstream.Local, own)
		_, err = open("")
		require.Equal(t, errs.InvalidParams, errs.CodeOf(err))
		_, err = open("127.0.0.1:1")
		require.Error(t, err)
	}
	require.Equal(t, transfer.Completed, move(t, near, 1, id, []byte("hello"), at(mem, 3)))
	require.Equal(t, "hello", string(mem[3:8]))
	require.Equal(t, transfer.Failed, move(t, near, 1, id, []byte("hello"), at(mem, 4095)))
	require.NoError(t, near.Remove(name))
	require.Error(t, near.Remove(name))
	other, err := near.Open(name)
	require.NoError(t, err)
	require.Equal(t, id+1, other)
	require.Equal(t, transfer.Completed, move(t, near, 0, id, make([]byte, 5), at(mem, 3)), "a number stays what it is")

	require.NoError(t, near.Notify(uint64(id), engine.Notice{Name: "n", Message: "m"}))
	list, err := far.Notices()
	require.NoError(t, err)
	require.Equal(t, []engine.Notice{{Name: "n", Message: "m"}}, list)
	require.NoError(t, near.Notify(0, engine.Notice{Name: "me"}))
	require.Error(t, near.Notify(1<<32, engine.Notice{}))
	require.Error(t, near.Notify(9, engine.Notice{}))

	// A batch that failed has its peer looked up before the next one.
	far.Shut()
	batch, err := near.NewBatch(1)
	require.NoError(t, err)
	if near.Submit(batch, []upstream.Request{{Segment: id, Local: make([]byte, 5), Addr: at(mem, 0)}}, nil) == nil {
		require.Equal(t, transfer.Failed, wait(t, near, batch, 0))
	}
	require.NoError(t, near.Free(batch))
	batch, err = near.NewBatch(1)
	require.NoError(t, err)
	require.Error(t, near.Submit(batch, []upstream.Request{{Segment: id, Local: make([]byte, 5), Addr: at(mem, 0)}}, nil))
	require.NoError(t, near.Free(batch))
}

func TestBatchesTakeAllOrNothing(t *testing.T) {
	e := made(t, true)
	mem := make([]byte, 64)
	require.NoError(t, register(e, mem))
	good := upstream.Request{Kind: 1, Local: []byte{1}, Addr: at(mem, 0)}
	id, err := e.NewBatch(2)
	require.NoError(t, err)
	require.NotContains(t, []uint64{0, 1<<64 - 1}, id)
	for name, bad := range map[string]upstream.Request{
		"kind": {Kind: 2, Local: []byte{1}, Addr: 1}, "segment": {Segment: 5, Local: []byte{1}, Addr: 1}, "address": {Local: make([]byte, 9), Addr: 1<<64 - 2},
	} {
		require.Equal(t, 1, upstream.Status(e.Submit(id, []upstream.Request{good, bad}, nil)), name)
	}
	require.Equal(t, 2, upstream.Status(e.Submit(id, []upstream.Request{good, good, good}, nil)))
	_, _, err = e.Status(id, 0)
	require.Equal(t, 1, upstream.Status(err), "nothing was accepted")
	require.NoError(t, e.Submit(id, []upstream.Request{good}, nil))
	require.Equal(t, 2, upstream.Status(e.Submit(id, []upstream.Request{good, good}, nil)))
	_, _, err = e.Status(id, 1)
	require.Equal(t, 1, upstream.Status(err), "nor a part")
	other := upstream.Request{Kind: 1, Local: []byte{2}, Addr: at(mem, 1)}
	require.NoError(t, e.Submit(id, []upstream.Request{other}, &engine.Notice{Name: "done"}))
	require.Equal(t, 2, upstream.Status(e.Submit(id, []upstream.Request{good}, nil)))
	require.Equal(t, transfer.Completed, wait(t, e, id, 1))
	require.Equal(t, transfer.Completed, wait(t, e, id, 0))
	_, n, err := e.Status(id, 0)
	require.NoError(t, err)
	require.Equal(t, uint64(1), n)
	require.Eventually(t, func() bool {
		list, err := e.Notices()
		return err == nil && len(list) == 1
	}, time.Minute, time.Millisecond)
	require.NoError(t, e.Free(id))
	require.Equal(t, 1, upstream.Status(e.Free(id)))
	for _, n := range []int{0, -1, 1 << 30} {
		_, err = e.NewBatch(n)
		require.Error(t, err)
	}
}

// Transports are added under one name, with the memory that is there; what cannot be added
// leaves everything as it was.
func TestInstall(t *testing.T) {
	far, near := made(t, false), made(t, true)
	require.Error(t, far.Install("nvlink", ""))
	require.Error(t, far.Uninstall("nvlink"))
	require.NoError(t, far.Uninstall("tcp"))
	require.Equal(t, 1, upstream.Status(far.Install("tcp", "{")))
	require.NoError(t, far.Install("tcp", `{"cpu:0":[[],[]]}`))
	require.NoError(t, far.Install("tcp", ""))
	name := nameOf(t, far)
	mem := make([]byte, 64)
	require.NoError(t, register(far, mem))
	reach := func(want byte) {
		t.Helper()
		id, err := near.OpenFresh(name)
		require.NoError(t, err)
		require.Equal(t, transfer.Completed, move(t, near, 1, id, []byte{want}, at(mem, 0)))
		require.Equal(t, want, mem[0])
		require.Equal(t, name, nameOf(t, far))
	}
	reach(1)
	batch, err := far.NewBatch(1)
	require.NoError(t, err)
	require.ErrorContains(t, far.Install("shm", ""), "batches")
	require.NoError(t, far.Free(batch))
	require.NoError(t, far.Install("shm", ""))
	reach(2)
	if err := far.Install("rdma", `{"cpu:0":[["nosuch0"],[]]}`); err != nil {
		reach(3)
	}
	require.NoError(t, far.Unregister([]uint64{at(mem, 0)}))
	require.ErrorIs(t, far.Unregister([]uint64{at(mem, 0)}), engine.ErrNotRegistered)
	far.Shut()
	require.ErrorContains(t, far.Install("tcp", ""), "destroyed")
	_, err = far.Name()
	require.ErrorContains(t, err, "destroyed")
	require.Error(t, register(far, mem))
}

func TestLinks(t *testing.T) {
	far, near := made(t, true), made(t, false)
	mem := make([]byte, 64)
	require.NoError(t, register(far, mem))
	require.NoError(t, near.Discover())
	before, err := near.Links()
	require.NoError(t, err)
	require.Empty(t, before.Links, "nothing is open, and that does not open it")
	require.Empty(t, near.Loads())
	id, err := near.Open(nameOf(t, far))
	require.NoError(t, err)
	require.Equal(t, transfer.Completed, move(t, near, 1, id, []byte{1}, at(mem, 0)))
	p, err := near.Links()
	require.NoError(t, err)
	require.True(t, slices.ContainsFunc(p.Links, func(l upstream.Link) bool { return l.Peer == nameOf(t, far) && l.Transport == "tcp" }))
	text, err := p.JSON()
	require.NoError(t, err)
	var got map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &got))
	require.IsType(t, []any{}, got["local_nics"])
	require.IsType(t, map[string]any{}, got["topology"])
	require.Contains(t, p.Text(), "=== Local NICs ===")
	require.Contains(t, p.Text(), nameOf(t, far)+" over tcp")
	require.NotEmpty(t, near.Loads())
	shown := upstream.Picture{NICs: []upstream.NIC{{Device: "mlx5_0", Source: "topology"}, {Device: "mlx5_1", Source: "rdma_transport"}}}.Text()
	require.Regexp(t, `mlx5_0 .*\(topology only\)\n.*mlx5_1 .*\(in use\)`, shown)
}

package rpc_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"
	pluginv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/plugin/v1"

	"github.com/mooncake-go/mooncake/core/api/rpc"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// codeOf returns the code in the detail of a status.
func codeOf(err error) errs.Code {
	for _, d := range status.Convert(err).Details() {
		if e, ok := d.(*pluginv1.Error); ok {
			return errs.Code(e.GetCode())
		}
	}
	return errs.OK
}

// TestServerRefusesWhatNoClientSends calls the server as a foreign program would.
func TestServerRefusesWhatNoClientSends(t *testing.T) {
	addr := serve(t, newTableMaster(), rpc.ServerOptions{})
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	c, ctx := masterv1.NewMasterServiceClient(conn), context.Background()
	long, many := strings.Repeat("x", 1<<10+1), make([]string, 1<<10+1)
	for name, f := range map[string]func() error{
		"tenant": func() error {
			_, err := c.Exist(ctx, &masterv1.ExistRequest{Caller: &masterv1.Caller{Tenant: long}})
			return err
		},
		"tenant of a task": func() error {
			_, err := c.CreateTask(ctx, &masterv1.CreateTaskRequest{Spec: &masterv1.TaskSpec{Key: []byte("k"), Tenant: long}})
			return err
		},
		"key of a task": func() error {
			_, err := c.CreateTask(ctx, &masterv1.CreateTaskRequest{Spec: &masterv1.TaskSpec{Key: make([]byte, model.MaxKeySize+1)}})
			return err
		},
		"kind": func() error { _, err := c.CopyEnd(ctx, &masterv1.CopyEndRequest{Kind: 2}); return err },
		"source": func() error {
			_, err := c.CopyStart(ctx, &masterv1.CopyStartRequest{Source: long})
			return err
		},
		"targets": func() error {
			_, err := c.CopyStart(ctx, &masterv1.CopyStartRequest{Targets: many})
			return err
		},
		"segment": func() error {
			_, err := c.ClearReplicas(ctx, &masterv1.ClearReplicasRequest{Segment: long})
			return err
		},
		"endpoint": func() error {
			_, err := c.Ping(ctx, &masterv1.PingRequest{Peers: []*masterv1.PeerReport{{Endpoint: long}}})
			return err
		},
		"peers": func() error {
			_, err := c.Ping(ctx, &masterv1.PingRequest{Peers: make([]*masterv1.PeerReport, 1<<12+1)})
			return err
		},
		"clients": func() error {
			_, err := c.QueryHosts(ctx, &masterv1.QueryHostsRequest{Clients: make([]*masterv1.UUID, 1<<16+1)})
			return err
		},
		"preferred": func() error {
			_, err := c.PutStart(ctx, &masterv1.PutStartRequest{Config: &masterv1.ReplicateConfig{ReplicaNum: 1, PreferredSegments: many}})
			return err
		},
		"host": func() error {
			_, err := c.PutStart(ctx, &masterv1.PutStartRequest{Config: &masterv1.ReplicateConfig{ReplicaNum: 1, HostId: long}})
			return err
		},
		"group": func() error {
			_, err := c.PutStart(ctx, &masterv1.PutStartRequest{
				Keys: [][]byte{{1}}, Sizes: []uint64{1}, Groups: []string{long}, Config: &masterv1.ReplicateConfig{ReplicaNum: 1},
			})
			return err
		},
	} {
		assert.Equal(t, errs.InvalidParams, codeOf(f()), name)
	}
	_, err = c.PutStart(ctx, &masterv1.PutStartRequest{Keys: [][]byte{{1}, {2}}, Sizes: []uint64{1, 1}, Groups: []string{"g"}})
	assert.Equal(t, errs.DeserializeFail, codeOf(err), "a column of another length")
	_, err = c.PutStart(ctx, &masterv1.PutStartRequest{Config: &masterv1.ReplicateConfig{ReplicaNum: 1, SoftPinAction: 256}})
	assert.Equal(t, errs.DeserializeFail, codeOf(err))
}

func TestNamesThatWouldBecomeOthersAreNotSent(t *testing.T) {
	m := newTableMaster()
	c := connect(t, m)
	_, err := c.Exist(t.Context(), model.Caller{Tenant: "a\xff"}, []string{"k"})
	assert.Equal(t, errs.InvalidParams, errs.CodeOf(err))
	_, err = c.CreateTask(t.Context(), nobody, model.TaskSpec{Key: "k", Tenant: "\xff"})
	assert.Equal(t, errs.InvalidParams, errs.CodeOf(err))
	_, err = c.PutStart(t.Context(), nobody, []model.PutItem{{Key: "k", Size: 1, Group: "\xff"}}, model.DefaultReplicateConfig(), nil)
	assert.Equal(t, errs.InvalidParams, errs.CodeOf(err))
	cfg, ttl := model.DefaultReplicateConfig(), -time.Second
	cfg.SoftPin = model.SoftPin{Action: model.SoftPinEnable, TTL: &ttl}
	_, err = c.PutStart(t.Context(), nobody, []model.PutItem{{Key: "k", Size: 1}}, cfg, nil)
	assert.Equal(t, errs.InvalidParams, errs.CodeOf(err))
	assert.Empty(t, m.batches)
	assert.Empty(t, m.objects)
}

func TestAShortPinStaysOne(t *testing.T) {
	m := newTableMaster()
	cfg, ttl := model.DefaultReplicateConfig(), time.Microsecond
	cfg.SoftPin = model.SoftPin{Action: model.SoftPinEnable, TTL: &ttl}
	_, err := connect(t, m).PutStart(t.Context(), nobody, []model.PutItem{{Key: "k", Size: 1}}, cfg, nil)
	require.NoError(t, err)
	assert.Equal(t, time.Millisecond, *m.objects["k"].cfg.SoftPin.TTL)
}

func TestLargeAnswersComeInPages(t *testing.T) {
	m := newTableMaster()
	for i := range 2500 {
		r := m.replica(make([]string, 64), 3<<20)
		m.objects[fmt.Sprintf("%04d", i)] = &entry{complete: true, object: model.Object{Size: 3 << 20, Replicas: []model.Replica{r}}}
	}
	c := connect(t, m)
	want, wantObjects, err := m.GetReplicasByRegex(t.Context(), nobody, "", "", 2400)
	require.NoError(t, err)
	m.batches = nil
	keys, objects, err := c.GetReplicasByRegex(t.Context(), nobody, "", "", 2400)
	require.NoError(t, err)
	assert.Equal(t, want, keys)
	assert.Equal(t, shown(wantObjects), shown(objects))
	assert.Len(t, m.batches, 2)
}

func TestLongListsAreCut(t *testing.T) {
	m := newTableMaster()
	c := connect(t, m)
	peers := make([]model.PeerReport, 1<<12+5)
	_, err := c.Ping(t.Context(), model.ClientID{Hi: 1}, model.PingReport{Peers: peers})
	require.NoError(t, err)
	assert.Len(t, m.reports, 1<<12)

	for i := range 200 {
		id := model.TaskID{Hi: 9, Lo: uint64(i)}
		m.tasks[id] = &model.Task{ID: id, Spec: model.TaskSpec{Key: strings.Repeat("k", model.MaxKeySize), Targets: make([]string, 64)}}
	}
	tasks, err := c.FetchTasks(t.Context(), nobody, 1000)
	require.NoError(t, err)
	assert.Len(t, tasks, 100)
	rest, err := c.FetchTasks(t.Context(), nobody, 1000)
	require.NoError(t, err)
	assert.Len(t, rest, 100)

	id := tasks[0].ID
	require.NoError(t, c.CompleteTask(t.Context(), nobody, id, model.TaskFailed, strings.Repeat("m", 1<<20)))
	assert.Less(t, len(m.tasks[id].Message), 2<<10)
}

func TestClearInPieces(t *testing.T) {
	m := newTableMaster()
	c := dial(t, serve(t, m, rpc.ServerOptions{}), rpc.Options{MaxItems: 2})
	var keys []string
	for i := range 7 {
		k := fmt.Sprint(i)
		keys = append(keys, k)
		m.objects[k] = &entry{complete: true, owner: model.UUID{Hi: uint64(i % 2)}}
	}
	cleared, err := c.ClearReplicas(t.Context(), nobody, keys, model.UUID{Hi: 1}, "")
	require.NoError(t, err)
	assert.Equal(t, []string{"1", "3", "5"}, cleared)
}

// lyingMaster answers with what no client asked for.
type lyingMaster struct {
	masterv1.UnimplementedMasterServiceServer
}

func (lyingMaster) ClearReplicas(context.Context, *masterv1.ClearReplicasRequest) (*masterv1.ClearReplicasResponse, error) {
	return &masterv1.ClearReplicasResponse{Cleared: [][]byte{{1}, {2}}}, nil
}

func (lyingMaster) FetchTasks(context.Context, *masterv1.FetchTasksRequest) (*masterv1.FetchTasksResponse, error) {
	return &masterv1.FetchTasksResponse{Tasks: make([]*masterv1.Assignment, 3)}, nil
}

func (lyingMaster) CopyStart(context.Context, *masterv1.CopyStartRequest) (*masterv1.CopyStartResponse, error) {
	return &masterv1.CopyStartResponse{Replicas: &masterv1.Replicas{Counts: []uint32{0, 0}}}, nil
}

func (lyingMaster) GetReplicasByRegex(context.Context, *masterv1.GetReplicasByRegexRequest) (*masterv1.GetReplicasByRegexResponse, error) {
	return &masterv1.GetReplicasByRegexResponse{Keys: [][]byte{{1}}, More: true}, nil
}

func (lyingMaster) ListKeys(context.Context, *masterv1.ListKeysRequest) (*masterv1.ListKeysResponse, error) {
	return &masterv1.ListKeysResponse{Keys: [][]byte{{2}, {1}}, More: true}, nil
}

func TestAnswersThatDoNotFitAreRefused(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := grpc.NewServer()
	masterv1.RegisterMasterServiceServer(s, lyingMaster{})
	done := make(chan error, 1)
	go func() { done <- s.Serve(ln) }()
	defer func() { s.Stop(); require.NoError(t, <-done) }()
	c, ctx := dial(t, ln.Addr().String(), rpc.Options{}), t.Context()
	for name, f := range map[string]func() error{
		"clear": func() error { _, err := c.ClearReplicas(ctx, nobody, []string{"a"}, model.UUID{}, ""); return err },
		"fetch": func() error { _, err := c.FetchTasks(ctx, nobody, 2); return err },
		"copy":  func() error { _, err := c.CopyStart(ctx, nobody, model.CopyObject, "a", "", nil); return err },
		"list":  func() error { _, err := c.ListKeys(ctx, nobody, "", "", 9); return err },
		"by expression": func() error {
			_, _, err := c.GetReplicasByRegex(ctx, nobody, "", "", 9)
			return err
		},
	} {
		assert.Equal(t, errs.DeserializeFail, errs.CodeOf(f()), name)
	}
}

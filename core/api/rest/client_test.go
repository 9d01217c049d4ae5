package rest_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/api/rest"
	"github.com/mooncake-go/mooncake/core/internal/testkit/heldport"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func connect(t *testing.T, h http.Handler) *rest.Client {
	srv := httptest.NewServer(h)
	c, err := rest.NewClient(nil, srv.Listener.Addr().String(), time.Minute)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close(); srv.Close() })
	return c
}

func TestClient(t *testing.T) {
	m := full()
	c, ctx := connect(t, rest.NewHandler(m, rest.Options{})), t.Context()

	s, err := c.Why(ctx, "team-a", "a+b /\xff")
	require.NoError(t, err)
	assert.Equal(t, "readable", s.Fate)
	assert.Equal(t, int64(4500), s.Object.LeaseLeft)
	assert.Equal(t, uint64(4096), s.Object.Replicas[0].Parts[1].Offset)
	assert.Equal(t, []any{"team-a", "a+b /\xff"}, m.asked)
	m.story = model.Story{Key: "k", Fate: model.FateEvicted, When: time.Now()}
	s, err = c.Why(ctx, "", "k")
	require.NoError(t, err)
	assert.Nil(t, s.Object, "what is gone has nothing but its story")

	segments, err := c.Segments(ctx)
	require.NoError(t, err)
	assert.Equal(t, 0.5, segments[0].Weight)
	f, err := c.Figures(ctx)
	require.NoError(t, err)
	assert.Equal(t, 2.0, f.Now["keys"])
	assert.Equal(t, rest.Calls{All: 12, Failed: 1}, f.Requests["ping"])

	id, err := c.CreateDrainJob(ctx, rest.DrainRequest{Segments: []string{"a"}})
	require.NoError(t, err)
	j, err := c.DrainJob(ctx, id)
	require.NoError(t, err)
	assert.Equal(t, "RUNNING", j.Name)
	require.NoError(t, c.CancelDrainJob(ctx, id))
	assert.Equal(t, errs.JobNotFound, errs.CodeOf(c.CancelDrainJob(ctx, "1-1")))

	q, err := c.Quotas(ctx)
	require.NoError(t, err)
	assert.Equal(t, "team-a", q[0].Tenant)
	one, err := c.SetQuota(ctx, "b", 5)
	require.NoError(t, err)
	assert.Equal(t, uint64(5), one.Requested)
	require.NoError(t, c.DeleteQuota(ctx, "team-a"))

	id, err = c.CreateTask(ctx, rest.TaskRequest{Kind: "copy", Key: "k", Targets: []string{"a"}})
	require.NoError(t, err)
	task, err := c.Task(ctx, id)
	require.NoError(t, err)
	assert.Equal(t, "FAILED", task.Status)
	n, err := c.RemoveAll(ctx, "", true)
	require.NoError(t, err)
	assert.Equal(t, 2, n)

	m.err = errs.New(errs.TaskPendingLimitExceeded, "master", "10000 wait already")
	_, err = c.CreateTask(ctx, rest.TaskRequest{Kind: "copy", Key: "k", Targets: []string{"a"}})
	assert.EqualError(t, err, "TASK_PENDING_LIMIT_EXCEEDED: master: 10000 wait already")
}

func TestClientWithoutMaster(t *testing.T) {
	for _, a := range []string{"", "host", "http://host:1", ":"} {
		_, err := rest.NewClient(nil, a, time.Second)
		assert.Equal(t, errs.InvalidParams, errs.CodeOf(err), a)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	c, err := rest.NewClient(nil, ln.Addr().String(), 20*time.Millisecond)
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Segments(t.Context())
	assert.Equal(t, errs.RPCTimeout, errs.CodeOf(err))
	c, err = rest.NewClient(nil, heldport.Address(t), time.Minute)
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Segments(t.Context())
	assert.Equal(t, errs.RPCFail, errs.CodeOf(err))
	assert.ErrorContains(t, err, "metrics_port")

	other := connect(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/segments" {
			http.Error(w, "what do you want", http.StatusTeapot)
		}
	}))
	_, err = other.Segments(t.Context())
	assert.ErrorContains(t, err, `418: "what do you want\n"`)
	_, err = other.Quotas(t.Context())
	assert.Equal(t, errs.DeserializeFail, errs.CodeOf(err))
}

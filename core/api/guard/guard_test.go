package guard_test

import (
	"context"
	"log/slog"
	"net"
	"reflect"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/api/guard"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/access"
	"github.com/mooncake-go/mooncake/core/internal/testkit/logbuf"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/security"
)

// spy notes who made the last call.
type spy struct {
	store.Master
	who    model.Caller
	called bool
	tasks  []model.Assignment
}

func (s *spy) note(who model.Caller) { s.who, s.called = who, true }

func (s *spy) Ping(_ context.Context, c model.ClientID, _ model.PingReport) (model.PingReply, error) {
	s.note(model.Caller{Client: c})
	return model.PingReply{}, nil
}

func (s *spy) RemountSegments(_ context.Context, c model.ClientID, _ []model.Segment) error {
	s.note(model.Caller{Client: c})
	return nil
}

func (s *spy) Exist(_ context.Context, who model.Caller, keys []model.Key) ([]model.Result[bool], error) {
	s.note(who)
	return make([]model.Result[bool], len(keys)), nil
}

func (s *spy) PutEnd(_ context.Context, who model.Caller, items []model.EndItem, _ []error) ([]error, error) {
	s.note(who)
	return make([]error, len(items)), nil
}

func (s *spy) FetchTasks(_ context.Context, who model.Caller, _ int) ([]model.Assignment, error) {
	s.note(who)
	return s.tasks, nil
}

func (s *spy) CompleteTask(_ context.Context, who model.Caller, _ model.TaskID, _ model.TaskStatus, _ string) error {
	s.note(who)
	return nil
}

func (s *spy) CopyEnd(_ context.Context, who model.Caller, _ model.CopyKind, _ model.Key) error {
	s.note(who)
	return nil
}

func as(t *testing.T, who string) (ctx context.Context, mine model.UUID) {
	t.Helper()
	id, err := security.ParseIdentity("spiffe://test/mooncake/" + who)
	require.NoError(t, err)
	return access.With(t.Context(), access.NewPeer(id, config.DoorRPC, &net.TCPAddr{})), model.UUID{Hi: access.Owner(id), Lo: 5}
}

// TestEveryCallNamesAClientOfItsOwn: each call of store.Master that takes a client or a caller is refused with
// that of another identity, and does not reach the master.
func TestEveryCallNamesAClientOfItsOwn(t *testing.T) {
	ctx, _ := as(t, "client/a")
	m := reflect.ValueOf(guard.New(&spy{}, guard.Options{})) // A call that gets through to it is a nil pointer.
	iface := reflect.TypeFor[store.Master]()
	other := model.UUID{Hi: 1, Lo: 1}
	for i := range iface.NumMethod() {
		method := iface.Method(i)
		in := []reflect.Value{reflect.ValueOf(ctx)}
		named := false
		for j := 1; j < method.Type.NumIn(); j++ {
			v := reflect.New(method.Type.In(j)).Elem()
			switch {
			case v.Type() == reflect.TypeFor[model.Caller]():
				v.Set(reflect.ValueOf(model.Caller{Client: other}))
				named = true
			case j == 1 && v.Type() == reflect.TypeFor[model.ClientID]() && method.Name != "QueryTask":
				v.Set(reflect.ValueOf(other))
				named = true
			}
			in = append(in, v)
		}
		if !named {
			continue
		}
		out := m.MethodByName(method.Name).Call(in)
		err, _ := out[len(out)-1].Interface().(error)
		assert.True(t, errs.Is(err, errs.IllegalClient), "%s: %v", method.Name, err)
		assert.ErrorContains(t, err, "which is not its own", method.Name)
	}
}

// TestEveryCallHasATenantOfItsOwn: each call with a caller is refused for another tenant.
func TestEveryCallHasATenantOfItsOwn(t *testing.T) {
	ctx, mine := as(t, "client/team/a")
	m := reflect.ValueOf(guard.New(&spy{}, guard.Options{}))
	iface := reflect.TypeFor[store.Master]()
	seen := 0
	for i := range iface.NumMethod() {
		method := iface.Method(i)
		if method.Name == "FetchTasks" || method.Name == "CompleteTask" || method.Type.NumIn() < 2 || method.Type.In(1) != reflect.TypeFor[model.Caller]() {
			continue // Tasks are those of the memory of the client, for all tenants.
		}
		in := []reflect.Value{reflect.ValueOf(ctx), reflect.ValueOf(model.Caller{Client: mine, Tenant: "default"})}
		for j := 2; j < method.Type.NumIn(); j++ {
			in = append(in, reflect.New(method.Type.In(j)).Elem())
		}
		out := m.MethodByName(method.Name).Call(in)
		err, _ := out[len(out)-1].Interface().(error)
		assert.ErrorContains(t, err, `is of tenant "team"`, method.Name)
		seen++
	}
	require.Equal(t, 16, seen)
}

func TestCallsGetTheirTenant(t *testing.T) {
	s := &spy{}
	m := guard.New(s, guard.Options{})
	ctx, mine := as(t, "client/team/a")
	_, err := m.PutEnd(ctx, model.Caller{Client: mine}, make([]model.EndItem, 3), nil)
	require.NoError(t, err)
	require.Equal(t, model.Caller{Client: mine, Tenant: "team"}, s.who)
	_, err = m.Exist(ctx, model.Caller{}, nil)
	require.NoError(t, err)
	require.Equal(t, model.Caller{Tenant: "team"}, s.who)
	ctx, _ = as(t, "master/a")
	any := model.Caller{Client: model.UUID{Hi: 1}, Tenant: "other"}
	_, err = m.PutEnd(ctx, any, nil, nil)
	require.NoError(t, err)
	require.Equal(t, any, s.who)
	_, err = m.PutEnd(t.Context(), any, nil, nil)
	require.NoError(t, err)

	one := guard.New(s, guard.Options{OneTenant: true})
	ctx, mine = as(t, "client/team/a")
	_, err = one.Exist(ctx, model.Caller{Client: mine}, nil)
	require.ErrorContains(t, err, "--enable_multi_tenants")
}

func TestAnOperatorMountsNothing(t *testing.T) {
	s := &spy{}
	m := guard.New(s, guard.Options{})
	ctx, mine := as(t, "operator/a")
	require.NoError(t, m.RemountSegments(ctx, mine, nil))
	require.True(t, s.called)
	require.ErrorContains(t, m.RemountSegments(ctx, mine, make([]model.Segment, 1)), "has no memory to mount")
}

// TestClientsOfUpstreamsAreAdopted: they make their ids themselves, which count as ids of their identity.
func TestClientsOfUpstreamsAreAdopted(t *testing.T) {
	s := &spy{}
	m := guard.New(s, guard.Options{Adopt: true})
	ctx, mine := as(t, "client/a")
	_, err := m.Ping(ctx, model.UUID{Hi: 77, Lo: mine.Lo}, model.PingReport{})
	require.NoError(t, err)
	require.Equal(t, mine, s.who.Client)
	_, err = m.PutEnd(ctx, model.Caller{Client: model.UUID{Hi: 77, Lo: mine.Lo}}, nil, nil)
	require.NoError(t, err)
	require.Equal(t, mine, s.who.Client)
	_, err = m.Ping(t.Context(), model.UUID{Hi: 77, Lo: 1}, model.PingReport{})
	require.NoError(t, err)
	require.Equal(t, model.UUID{Hi: 77, Lo: 1}, s.who.Client)
}

// TestTasksConcernObjectsOfOtherTenants: the memory of a client is for all tenants.
func TestTasksConcernObjectsOfOtherTenants(t *testing.T) {
	task := model.Assignment{ID: model.UUID{Lo: 1}, Spec: model.TaskSpec{Tenant: "other", Key: "k"}}
	s := &spy{tasks: []model.Assignment{task}}
	m := guard.New(s, guard.Options{})
	ctx, mine := as(t, "client/team/a")
	end := func(key string) error {
		return m.CopyEnd(ctx, model.Caller{Client: mine, Tenant: "other"}, model.CopyObject, key)
	}
	require.Error(t, end("k"))
	_, err := m.FetchTasks(ctx, model.Caller{Client: mine}, 1)
	require.NoError(t, err)
	require.NoError(t, end("k"))
	require.Error(t, end("l"))
	strange, other := as(t, "client/team/b")
	require.Error(t, m.CopyEnd(strange, model.Caller{Client: other, Tenant: "other"}, model.CopyObject, "k"))
	require.NoError(t, m.CompleteTask(ctx, model.Caller{Client: mine}, task.ID, model.TaskSuccess, ""))
	require.Error(t, end("k"))
}

func TestObjectsAreSummed(t *testing.T) {
	var log logbuf.Buffer
	k := access.NewControl("log", slog.New(slog.NewTextHandler(&log, nil)), prometheus.NewRegistry())
	m := guard.New(&spy{}, guard.Options{Control: k})
	ctx, mine := as(t, "store/a")
	_, err := m.PutEnd(ctx, model.Caller{Client: mine}, make([]model.EndItem, 3), nil)
	require.NoError(t, err)
	k.Close()
	require.Contains(t, log.String(), "who=store/a trust=test door=rpc remote=:0 call=PutEnd done=3 failed=0")
}

package service_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/api/upstream"
	"github.com/mooncake-go/mooncake/core/api/upstream/calls"
	"github.com/mooncake-go/mooncake/core/api/upstream/service"
	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/master/quota"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// anyCall is a function whose messages have any type.
type anyCall interface {
	calls.Function
	// empty is a request whose fields are all zero.
	empty(t testing.TB, v calls.Version) []byte
	// request decodes a request.
	request(t testing.TB, body []byte) any
	// outcome decodes a response and returns its error codes: one, or one for each item of a batch.
	outcome(t testing.TB, v calls.Version, body []byte) []errs.Code
	// task returns the identifier that a response has, the zero one for other responses.
	task(t testing.TB, v calls.Version, body []byte) model.UUID
}

type typed[Q, R any] struct{ *calls.Call[Q, R] }

func (f typed[Q, R]) empty(t testing.TB, v calls.Version) []byte {
	body, err := f.AppendRequest(nil, v, new(Q))
	require.NoError(t, err)
	return body
}

func (f typed[Q, R]) request(t testing.TB, body []byte) any {
	q := new(Q)
	_, err := f.DecodeRequest(body, q)
	require.NoError(t, err)
	return q
}

func (f typed[Q, R]) outcome(t testing.TB, v calls.Version, body []byte) []errs.Code {
	var r R
	require.NoError(t, f.DecodeResponse(body, v, &r), f.Name())
	switch x := reflect.ValueOf(r); x.Kind() {
	case reflect.Struct:
		return []errs.Code{x.FieldByName("Code").Interface().(errs.Code)}
	case reflect.Slice:
		out := make([]errs.Code, x.Len())
		for i := range out {
			out[i] = x.Index(i).FieldByName("Code").Interface().(errs.Code)
		}
		return out
	}
	return nil // RemoveAll
}

func (f typed[Q, R]) task(t testing.TB, v calls.Version, body []byte) model.UUID {
	var r R
	require.NoError(t, f.DecodeResponse(body, v, &r))
	made, _ := any(r).(calls.Expected[model.UUID])
	return made.Value
}

func of[Q, R any](f *calls.Call[Q, R]) anyCall { return typed[Q, R]{f} }

var every = []anyCall{
	of(calls.ServiceReady), of(calls.GetFsdir), of(calls.GetStorageConfig), of(calls.Ping), of(calls.MountSegment), of(calls.ReMountSegment),
	of(calls.UnmountSegment), of(calls.GracefulUnmountSegment), of(calls.QuerySegmentStatus), of(calls.QuerySegmentStatusByID), of(calls.BatchQueryIP),
	of(calls.MountNoFSegment), of(calls.ReMountNoFSegment), of(calls.UnmountNoFSegment), of(calls.GetAllNoFSegments), of(calls.GetNoFSegmentsByName),
	of(calls.ExistKey), of(calls.BatchExistKey), of(calls.GetReplicaList), of(calls.BatchGetReplicaList), of(calls.GetReplicaListByRegex),
	of(calls.PutStart), of(calls.PutEnd), of(calls.PutRevoke), of(calls.BatchPutStart), of(calls.BatchPutEnd), of(calls.BatchPutRevoke),
	of(calls.UpsertStart), of(calls.UpsertEnd), of(calls.UpsertRevoke), of(calls.BatchUpsertStart), of(calls.BatchUpsertEnd), of(calls.BatchUpsertRevoke),
	of(calls.Remove), of(calls.RemoveByRegex), of(calls.RemoveAll), of(calls.BatchRemove), of(calls.BatchReplicaClear), of(calls.EvictDiskReplica),
	of(calls.BatchEvictDiskReplica), of(calls.CreateCopyTask), of(calls.CreateMoveTask), of(calls.QueryTask), of(calls.FetchTasks),
	of(calls.MarkTaskToComplete), of(calls.CopyStart), of(calls.CopyEnd), of(calls.CopyRevoke), of(calls.MoveStart), of(calls.MoveEnd), of(calls.MoveRevoke),
	of(calls.DynamicReplicaCopyStart), of(calls.DynamicReplicaCopyEnd), of(calls.DynamicReplicaCopyRevoke), of(calls.MountLocalDiskSegment),
	of(calls.UnmountLocalDiskSegment), of(calls.OffloadObjectHeartbeat), of(calls.NotifyOffloadSuccess), of(calls.ReportSsdCapacity), of(calls.PollRemoveAll),
	of(calls.PromotionAllocStart), of(calls.PromotionObjectHeartbeat), of(calls.NotifyPromotionSuccess), of(calls.NotifyPromotionFailure),
}

func callOf(t testing.TB, name string) anyCall {
	for _, f := range every {
		if f.Name() == name {
			return f
		}
	}
	t.Fatalf("no function %s", name)
	return nil
}

// Every function of every version is answered in the shape of the version, whatever is in the request.
func TestEveryFunctionIsAnswered(t *testing.T) {
	for _, f := range calls.Functions {
		callOf(t, f.Name())
	}
	require.Len(t, every, len(calls.Functions))
	each(t, calls.V9, func(t *testing.T, v calls.Version) {
		p := newPool(t, nil, 64)
		for _, f := range every {
			if !f.Versions().Has(v) {
				continue
			}
			answer, err := p.AnswerAs(t.Context(), v, f.ID(), f.empty(t, v))
			require.NoError(t, err, f.Name())
			for _, code := range f.outcome(t, v, answer) {
				require.Contains(t, known(v), code, f.Name())
			}
		}
	})
}

// What cannot be answered is refused such that the connection stays open.
func TestRefusals(t *testing.T) {
	p := newPool(t, nil, 64)
	refused := func(function uint32, body []byte) *upstream.Refused {
		out, err := p.AnswerAs(t.Context(), calls.V13, function, body)
		require.Empty(t, out)
		var r *upstream.Refused
		require.ErrorAs(t, err, &r)
		return r
	}
	require.Equal(t, upstream.CodeUnsupported, refused(1, nil).Code)
	other := refused(calls.PutStart.ID(), of(calls.ExistKey).empty(t, calls.V13))
	require.Equal(t, upstream.CodeUnsupported, other.Code)
	require.Contains(t, other.Message, "0.3.9 to 0.3.13.post1")
	whole := of(calls.PutStart).empty(t, calls.V13)
	require.Equal(t, upstream.CodeUndecodable, refused(calls.PutStart.ID(), whole[:len(whole)-1]).Code)
	require.Equal(t, upstream.CodeUndecodable, refused(calls.PutStart.ID(), nil).Code)
}

// known are the codes that clients of a version know. Those of 0.3.13 are all that there are; before, the numbers that upstream's
// releases added are missing.
func known(v calls.Version) []errs.Code {
	since := map[errs.Code]calls.Version{-801: 13, -1007: 13, -1012: 13, -713: 12, -714: 12, -901: 12, -1004: 12, -1005: 12, -1006: 12, -1402: 12}
	var out []errs.Code
	for _, c := range errs.Codes() {
		first, ok := since[c]
		if !ok && c <= errs.SerializeUnsupported {
			first = 12
		}
		if v >= first {
			out = append(out, c)
		}
	}
	return out
}

// No version is told a code that it does not know, and each is told the code itself where it knows it.
func TestErrorCodes(t *testing.T) {
	each(t, calls.V9, func(t *testing.T, v calls.Version) {
		known := known(v)
		for _, code := range errs.Codes() {
			if code == errs.OK {
				continue
			}
			told := service.CodeOf(v, code.Err())
			require.Contains(t, known, told)
			require.NotEqual(t, errs.OK, told)
			if told != code {
				require.NotContains(t, known, code)
			}
		}
		require.Equal(t, errs.OK, service.CodeOf(v, nil))
	})
	require.Equal(t, errs.NoAvailableHandle, service.CodeOf(calls.V11, errs.New(errs.TenantQuotaExceeded, "", "full")))
}

// Clients from V12 on name the tenant whose keys they mean. Those before have the keys of the default one.
func TestTenants(t *testing.T) {
	path := filepath.Join(t.TempDir(), "quotas.yaml")
	require.NoError(t, os.WriteFile(path, []byte("version: 1\ntenants:\n- {name: default, quota: 100KB}\n- {name: blue, quota: 1KB}\n"), 0o600))
	keeper, err := quota.OpenKeeper(path, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	p := newPoolWith(t, master.Deps{Tenants: keeper}, nil, 64)
	put := func(v calls.Version, tenant string, size uint64) errs.Code {
		c := p.client(v, 1)
		q := calls.PutStartRequest{Client: c.id, Key: "k", Size: size, Config: calls.ReplicateConfig{Replicas: 1}, Tenant: tenant}
		got := ask(p, v, calls.PutStart, q)
		if got.Code == errs.OK {
			require.Equal(t, errs.OK, ask(p, v, calls.PutEnd, calls.PutEndRequest{Client: c.id, ObjectMeta: calls.ObjectMeta{Key: "k"}, Tenant: tenant}).Code)
		}
		return got.Code
	}
	exist := func(v calls.Version, tenant string) bool {
		return ask(p, v, calls.ExistKey, calls.ExistKeyRequest{Key: "k", Tenant: tenant}).Value
	}
	require.Equal(t, errs.TenantNotRegistered, put(calls.V12, "red", 10))
	require.Equal(t, errs.TenantQuotaExceeded, put(calls.V13, "blue", 2000))
	require.Equal(t, errs.OK, put(calls.V12, "blue", 10))
	require.Equal(t, []bool{true, true, false, false, false}, []bool{
		exist(calls.V13, "blue"), exist(calls.V12, "blue"), exist(calls.V13, "default"), exist(calls.V12, ""), exist(calls.V11, ""),
	})
	require.Equal(t, errs.OK, put(calls.V9, "", 10))
	require.True(t, exist(calls.V13, "default"))
	require.Equal(t, errs.NoAvailableHandle, ask(p, calls.V11, calls.PutStart,
		calls.PutStartRequest{Client: node(1), Key: "large", Size: 1 << 20, Config: calls.ReplicateConfig{Replicas: 1}}).Code)
	require.Equal(t, int64(1), ask(p, calls.V10, calls.RemoveAll, calls.RemoveAllRequest{Force: true}), "of the default tenant")
	require.Equal(t, int64(1), ask(p, calls.V12, calls.RemoveAll, calls.RemoveAllRequest{Force: true, Tenant: "blue"}))
	require.Equal(t, errs.InvalidParams, ask(p, calls.V12, calls.GetReplicaList, calls.GetReplicaListRequest{Key: "k", Tenant: "_all"}).Code)
}

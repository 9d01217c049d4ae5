package rest_test

import (
	"context"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/core/api/rest"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a master with a fixed state, which notes what it was asked.
type fake struct {
	store.Master // the calls that the admin port does not make

	keys     []model.Key
	replica  model.Replica
	segments []model.SegmentInfo
	summary  string
	registry *prometheus.Registry
	err      error // of every call that can fail
	keyErr   error // of every key
	story    model.Story
	job      model.DrainJob
	task     model.Task
	tenants  []model.TenantQuota // nil: one tenant only
	kvEvents model.KVEventStats

	leases int
	asked  []any
}

func newFake() *fake {
	return &fake{registry: prometheus.NewRegistry(), replica: model.Replica{Part: model.Part{
		Size: 65536, Address: 139789964214272, Protocol: "tcp", Endpoint: "127.0.0.1:12459",
	}}}
}

func (m *fake) note(args ...any) { m.asked = append(m.asked, args...) }

func (m *fake) GetReplicas(_ context.Context, c model.Caller, keys []model.Key, _ *model.Answer[model.Object]) ([]model.Result[model.Object], error) {
	m.leases++
	m.note(c)
	return m.PeekReplicas(keys), m.err
}

func (m *fake) PeekReplicas(keys []model.Key) []model.Result[model.Object] {
	out := make([]model.Result[model.Object], len(keys))
	for i, k := range keys {
		switch {
		case m.keyErr != nil:
			out[i].Err = m.keyErr
		case slices.Contains(m.keys, k):
			out[i].Value = model.Object{Size: m.replica.Bytes(), Replicas: []model.Replica{m.replica}}
		default:
			out[i].Err = errs.New(errs.ObjectNotFound, "get", "no %q", k)
		}
	}
	return out
}

func (m *fake) WalkKeys(yield func(model.Key) bool) {
	for _, k := range m.keys {
		if !yield(k) {
			return
		}
	}
}

func (m *fake) Segments(context.Context) ([]model.SegmentInfo, error) { return m.segments, m.err }

func (m *fake) RemoveAll(_ context.Context, c model.Caller, force bool) (int, error) {
	m.note(c.Tenant, force)
	return len(m.keys), m.err
}

func (m *fake) Remove(_ context.Context, c model.Caller, keys []model.Key, force bool) ([]error, error) {
	m.note(c.Tenant, keys[0], force)
	return []error{m.keyErr}, m.err
}

func (m *fake) ListKeys(_ context.Context, c model.Caller, expr string, after model.Key, limit int) ([]model.Key, error) {
	m.note(c.Tenant, expr, after, limit)
	re, err := regexp.Compile(expr)
	if err != nil {
		return nil, errs.Wrap(errs.InvalidParams, "list", err)
	}
	var out []model.Key
	for _, k := range slices.Sorted(slices.Values(m.keys)) {
		if k > after && re.MatchString(k) && len(out) < limit {
			out = append(out, k)
		}
	}
	return out, m.err
}

func (m *fake) Why(_ context.Context, c model.Caller, key model.Key) (model.Story, error) {
	m.note(c.Tenant, key)
	return m.story, m.err
}

func (m *fake) CreateDrainJob(_ context.Context, spec model.DrainSpec) (model.JobID, error) {
	m.note(spec)
	return m.job.ID, m.err
}

func (m *fake) DrainJob(_ context.Context, id model.JobID) (model.DrainJob, error) {
	if m.err == nil && id != m.job.ID {
		return model.DrainJob{}, errs.New(errs.JobNotFound, "drain job", "no job %s", id)
	}
	return m.job, m.err
}

func (m *fake) CancelDrainJob(ctx context.Context, id model.JobID) error {
	_, err := m.DrainJob(ctx, id)
	return err
}

func (m *fake) CreateTask(_ context.Context, c model.Caller, spec model.TaskSpec) (model.TaskID, error) {
	m.note(c.Tenant, spec)
	return m.task.ID, m.err
}

func (m *fake) QueryTask(_ context.Context, id model.TaskID) (model.Task, error) {
	if m.err == nil && id != m.task.ID {
		return model.Task{}, errs.New(errs.TaskNotFound, "task", "no task %s", id)
	}
	return m.task, m.err
}

func (m *fake) mode() error {
	if m.tenants == nil {
		return errs.New(errs.UnavailableInCurrentMode, "tenants", "there is one tenant only")
	}
	return m.err
}

func (m *fake) TenantQuotas(context.Context) ([]model.TenantQuota, error) { return m.tenants, m.mode() }

func (m *fake) TenantQuota(_ context.Context, t model.Tenant) (model.TenantQuota, error) {
	if err := m.mode(); err != nil {
		return model.TenantQuota{}, err
	}
	for _, q := range m.tenants {
		if q.Tenant == t {
			return q, nil
		}
	}
	return model.TenantQuota{}, errs.New(errs.TenantNotRegistered, "tenants", "no tenant %q", t)
}

func (m *fake) SetTenantQuota(_ context.Context, t model.Tenant, n uint64) (model.TenantQuota, error) {
	m.note(t, n)
	return model.TenantQuota{Tenant: t, Requested: n, Effective: n, ExplicitPolicy: true}, m.mode()
}

func (m *fake) DeleteTenantQuota(ctx context.Context, t model.Tenant) error {
	_, err := m.TenantQuota(ctx, t)
	return err
}

func (m *fake) Summary() string { return m.summary }

func (m *fake) Metrics() prometheus.Gatherer { return m.registry }

// full is a master in which every route has something to say.
func full() *fake {
	m := newFake()
	at := time.Date(2026, 5, 4, 3, 2, 1, 500e6, time.UTC)
	m.keys = []string{"page-1", "page-2"}
	m.summary = "Mem Storage: 1.00 GB / 4.00 GB (25.0%) | …"
	m.kvEvents = model.KVEventStats{Enabled: true, Batches: 12, Events: 340, Dropped: 5, Skipped: 7, Subscribers: 1, Missed: 2}
	m.tenants = []model.TenantQuota{{Tenant: "team-a", Requested: 1 << 30, Effective: 1 << 29, Charged: 1 << 20, ExplicitPolicy: true}}
	segment := model.Part{SegmentID: model.UUID{Hi: 1, Lo: 2}, Segment: "10.0.0.7:12300", Endpoint: "10.0.0.7:12300", Protocol: "tcp", Address: 0x7f00, Size: 4096}
	second := segment
	second.SegmentID, second.Segment, second.Address, second.Size = model.UUID{Hi: 1, Lo: 3}, "10.0.0.8:12300", 0x9000, 1024
	m.replica = model.Replica{ID: 9, Status: model.ReplicaComplete, Part: segment, More: []model.Part{second}}
	m.story = model.Story{
		Key: "page-1", Tenant: "default", Fate: model.FateReadable, When: at, Reason: "it is there", Since: at.Add(-time.Hour),
		Size: 5120, Checksum: model.Checksum{Kind: model.ChecksumCRC32C, Value: 0xab12}, DataType: model.DataKVCache, Group: "g", Creator: model.UUID{Lo: 5},
		LeaseLeft: 4500 * time.Millisecond, ProbeLeft: time.Second, SoftPinLeft: time.Minute, HardPin: true,
		LastReader: model.UUID{Lo: 6}, LastRead: at.Add(time.Second), Copying: true, Replicas: []model.Replica{m.replica},
	}
	m.segments = []model.SegmentInfo{{
		Segment: model.Segment{ID: model.UUID{Hi: 1, Lo: 2}, Name: "10.0.0.7:12300", Base: 0x7f00, Size: 4 << 30, Endpoint: "10.0.0.7:12300", Protocol: "tcp", HostID: "10.0.0.7"},
		Client:  model.UUID{Lo: 3}, Status: model.SegmentGracefullyUnmounting, Used: 1 << 30, Weight: 0.5, Deadline: at, Writing: 4 << 20, Held: 1 << 20, Adopted: 1000,
	}}
	m.job = model.DrainJob{ID: model.UUID{Hi: 7, Lo: 8}, Spec: model.DrainSpec{Segments: []string{"10.0.0.7:12300"}, MaxConcurrency: 4}, Status: model.JobRunning,
		Created: at, Updated: at.Add(time.Second), Succeeded: 10, Failed: 1, Blocked: 2, Active: 4, MigratedBytes: 40960, Message: "2 objects are being read"}
	m.task = model.Task{ID: model.UUID{Hi: 4, Lo: 4}, Spec: model.TaskSpec{Kind: model.MoveObject, Tenant: "default", Key: "page-1", Source: "10.0.0.7:12300", Targets: []string{"10.0.0.8:12300"}},
		Status: model.TaskFailed, Created: at, Updated: at, Assigned: model.UUID{Lo: 3}, Message: "processing timeout"}
	keys := prometheus.NewGauge(prometheus.GaugeOpts{Name: "master_key_count", Help: "Number of objects, unfinished puts included."})
	keys.Set(2)
	m.registry.MustRegister(keys)
	for name, n := range map[string]float64{"master_ping_requests_total": 12, "master_ping_failures_total": 1} {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: "Number of pings of clients."})
		c.Add(n)
		m.registry.MustRegister(c)
	}
	return m
}

func ask(m rest.Master, method, target string) *httptest.ResponseRecorder {
	return askBody(m, method, target, "")
}

func askBody(m rest.Master, method, target, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	rest.NewHandler(m, rest.Options{}).ServeHTTP(w, httptest.NewRequest(method, target, strings.NewReader(body)))
	return w
}

func (m *fake) KVEvents() model.KVEventStats { return m.kvEvents }

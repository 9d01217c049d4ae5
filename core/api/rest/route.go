package rest

import (
	"net/http"

	"github.com/mooncake-go/mooncake/core/internal/access"
)

// route is one row of the table that drives the dispatch, docs/admin-http.md and the tests.
type route struct {
	method, path string
	// what is the line of the documentation.
	what string
	// params are the names of the parameters. A route below /api/ refuses others: a
	// mistyped one must not turn "of this tenant" into "of all".
	params []string
	// body is the documentation of a route's body, empty for none.
	body string
	// data is true for what needs a master that serves.
	data bool
	// plain answers of upstream's have another form for a master that does not.
	plain bool
	serve func(*handler, http.ResponseWriter, *http.Request)
	// call is the row of the table of calls, nil for none.
	call *access.Call
}

// refuse answers for a master that does not serve.
func (rt route) refuse(w http.ResponseWriter, why string) {
	if rt.plain {
		sendJSON(w, http.StatusServiceUnavailable, plainFailure{Error: why})
		return
	}
	sendJSON(w, http.StatusServiceUnavailable, failure{Code: -1011, Message: why})
}

// plainFailure is the second form of upstream's errors.
type plainFailure struct {
	Success bool   `json:"success"`
	Error   string `json:"error"`
}

// routes are all routes, in the order of the documentation.
func routes() []route {
	return []route{
		{method: "GET", path: "/health", what: "Reports that the process answers, and the state of the master. Always 200.", serve: (*handler).health},
		{method: "GET", path: "/role", what: "The role: `leader` or `standby`.", serve: (*handler).role},
		{method: "GET", path: "/ha_status", what: "The state: `starting`, `standby`, `candidate`, `recovering`, `catching_up`, `leader_warmup` or `serving`.", serve: (*handler).haStatus},
		{method: "GET", path: "/leader", what: "The address of the leader.", serve: (*handler).leader},
		{method: "GET", path: "/metrics", what: "All metrics, in Prometheus' text format.", serve: (*handler).metrics},
		{method: "GET", path: "/metrics/summary", what: "A readable summary in one line. Rates cover the time since the last log line.", serve: (*handler).summary},
		{method: "GET", path: "/kv_events/status", what: "Counts what happened to KV events since the start; see [KV events](operations/kv-events.md).", data: true, serve: (*handler).kvEvents},
		{method: "GET", path: "/query_key", params: []string{"key", "lease"}, data: true, serve: (*handler).queryKey,
			what: "The location of an object of the default tenant, with one entry for each extent in memory. The request counts as a read and grants its lease; with `lease=false` it does neither."},
		{method: "GET", path: "/batch_query_keys", params: []string{"keys"}, data: true, plain: true, serve: (*handler).batchQueryKeys,
			what: "The same for several keys, separated by commas, without leases, and the copies on storage tiers (`local_disk_values`)."},
		{method: "GET", path: "/get_all_keys", what: "Every readable key, one per line. The answer is streamed.", data: true, serve: (*handler).allKeys},
		{method: "GET", path: "/get_all_segments", what: "The name of every mounted segment of memory, one per line.", data: true, serve: (*handler).allSegments},
		{method: "GET", path: "/get_segments_detail", what: "All details of every segment of memory.", data: true, serve: (*handler).segmentsDetail},
		{method: "GET", path: "/query_segment", params: []string{"segment"}, data: true, serve: (*handler).querySegment,
			what: "The bytes used and the capacity of the segments with a name. 500 for a name that does not exist."},
		{method: "GET", path: "/api/v1/why", params: []string{"key", "tenant_id"}, data: true, serve: data((*handler).why),
			what: "Everything that the master knows about a key: its location, its last reader and its protection, or when and why it was removed."},
		{method: "GET", path: "/api/v1/keys", params: []string{"regex", "after", "limit", "tenant_id"}, data: true, serve: data((*handler).listKeys),
			what: "Keys that match an expression (RE2), in the order of their bytes. `limit` is 1 to 10000, by default 1000. " +
				"`next` is the `after` of the next page, already encoded; `null` marks the end."},
		{method: "POST", path: "/api/v1/remove", params: []string{"key", "force", "tenant_id"}, data: true, serve: raw((*handler).remove),
			what: "Removes one object. 409 while a client reads it, unless `force=true`."},
		{method: "POST", path: "/api/v1/remove_all", params: []string{"force", "tenant_id"}, data: true, serve: raw((*handler).removeAll),
			what: "Removes every object of a tenant, or of all tenants without `tenant_id`. Objects that a client is reading stay, unless `force=true`."},
		{method: "GET", path: "/api/v1/segments", what: "Segments with their weight and the deadline of a graceful unmount.", data: true, serve: data((*handler).listSegments)},
		{method: "GET", path: "/api/v1/segments/status", params: []string{"segment"}, data: true, serve: raw((*handler).segmentStatus),
			what: "The state of a segment. If several segments have the name, the state of the one whose removal is most advanced."},
		{method: "POST", path: "/api/v1/drain_jobs", data: true, serve: raw((*handler).createDrainJob), what: "Starts a job that moves all objects off segments.",
			body: "`segments`: names; `target_segments`: names, by default any other; `max_concurrency`: moves at once, by default 4"},
		{method: "GET", path: "/api/v1/drain_jobs/query", params: []string{"job_id"}, data: true, serve: raw((*handler).queryDrainJob), what: "The progress of a job."},
		{method: "POST", path: "/api/v1/drain_jobs/cancel", params: []string{"job_id"}, data: true, serve: raw((*handler).cancelDrainJob),
			what: "Cancels a job. Its segments accept objects again. 409 while moves are in progress."},
		{method: "POST", path: "/api/v1/tasks", data: true, serve: data((*handler).createTask), what: "Assigns a client a task to copy or move one object.",
			body: "`kind`: `copy` or `move`; `key`; `tenant_id`; `source`: name of a segment, for a copy by default any; `targets`: names, one for a move"},
		{method: "GET", path: "/api/v1/tasks", params: []string{"task_id"}, data: true, serve: data((*handler).queryTask), what: "The progress of a task."},
		{method: "GET", path: "/api/v1/tenant_quotas", params: []string{"tenant_id"}, data: true, serve: data((*handler).tenantQuotas),
			what: "The quotas of all tenants, or of one. 409 while the master serves one tenant only; this also applies to the two routes below."},
		{method: "PUT", path: "/api/v1/tenant_quotas", params: []string{"tenant_id"}, data: true, serve: data((*handler).setTenantQuota),
			what: "Registers a tenant or changes its quota.", body: "`requested_quota_bytes`: 1 to 2^63-1"},
		{method: "DELETE", path: "/api/v1/tenant_quotas", params: []string{"tenant_id"}, data: true, serve: data((*handler).deleteTenantQuota),
			what: "Removes a tenant. 409 while it has objects."},
		{method: "GET", path: "/api/v1/summary", what: "The figures of `/metrics/summary` as numbers, counted since the start.", serve: data((*handler).summaryJSON)},
	}
}

package rest

import "net/http"

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
		{method: "GET", path: "/health", what: "Whether the process answers, and what the master is. Always 200.", serve: (*handler).health},
		{method: "GET", path: "/role", what: "`leader` or `standby`.", serve: (*handler).role},
		{method: "GET", path: "/ha_status", what: "`starting`, `standby`, `candidate`, `recovering`, `catching_up`, `leader_warmup` or `serving`.", serve: (*handler).haStatus},
		{method: "GET", path: "/leader", what: "Who leads.", serve: (*handler).leader},
		{method: "GET", path: "/metrics", what: "Everything, in Prometheus' text format.", serve: (*handler).metrics},
		{method: "GET", path: "/metrics/summary", what: "One line for people; rates are over the time since the last log line.", serve: (*handler).summary},
		{method: "GET", path: "/kv_events/status", what: "What became of the events about objects that come and go, since the start; see [KV events](operations/kv-events.md).", data: true, serve: (*handler).kvEvents},
		{method: "GET", path: "/query_key", params: []string{"key", "lease"}, data: true, serve: (*handler).queryKey,
			what: "Where an object of the default tenant lies, a line a part. It counts as a read and grants its lease; `lease=false` does neither."},
		{method: "GET", path: "/batch_query_keys", params: []string{"keys"}, data: true, plain: true, serve: (*handler).batchQueryKeys,
			what: "The same for several keys with commas between them, without leases."},
		{method: "GET", path: "/get_all_keys", what: "Every readable key on a line of its own. Streamed.", data: true, serve: (*handler).allKeys},
		{method: "GET", path: "/get_all_segments", what: "The name of every mounted segment on a line of its own.", data: true, serve: (*handler).allSegments},
		{method: "GET", path: "/get_segments_detail", what: "Everything about every segment.", data: true, serve: (*handler).segmentsDetail},
		{method: "GET", path: "/query_segment", params: []string{"segment"}, data: true, serve: (*handler).querySegment,
			what: "What the segments of a name hold. 500 for a name that is not there."},
		{method: "GET", path: "/api/v1/why", params: []string{"key", "tenant_id"}, data: true, serve: (*handler).why,
			what: "All that the master knows of a key: where it lies, who reads it, what protects it, or when and why it went."},
		{method: "GET", path: "/api/v1/keys", params: []string{"regex", "after", "limit", "tenant_id"}, data: true, serve: (*handler).listKeys,
			what: "Keys in the order of their bytes, those with a match of an expression (RE2). `limit` is 1 to 10000, by default 1000. " +
				"`next`, encoded already, is the `after` of the next page; `null` is the end."},
		{method: "POST", path: "/api/v1/remove", params: []string{"key", "force", "tenant_id"}, data: true, serve: (*handler).remove,
			what: "Removes one object. 409 while somebody reads it, unless `force=true`."},
		{method: "POST", path: "/api/v1/remove_all", params: []string{"force", "tenant_id"}, data: true, serve: (*handler).removeAll,
			what: "Removes every object of a tenant, or without `tenant_id` of all, that nobody reads; with `force=true` also those."},
		{method: "GET", path: "/api/v1/segments", what: "Segments with their weight and the end of a graceful unmount.", data: true, serve: (*handler).listSegments},
		{method: "GET", path: "/api/v1/segments/status", params: []string{"segment"}, data: true, serve: (*handler).segmentStatus,
			what: "The state of a segment; of several with one name, of the one that is furthest on its way out."},
		{method: "POST", path: "/api/v1/drain_jobs", data: true, serve: (*handler).createDrainJob, what: "Begins to move everything off segments.",
			body: "`segments`: names; `target_segments`: names, by default any other; `max_concurrency`: moves at once, by default 4"},
		{method: "GET", path: "/api/v1/drain_jobs/query", params: []string{"job_id"}, data: true, serve: (*handler).queryDrainJob, what: "How far a job is."},
		{method: "POST", path: "/api/v1/drain_jobs/cancel", params: []string{"job_id"}, data: true, serve: (*handler).cancelDrainJob,
			what: "Gives a job up; its segments take objects again. 409 while moves are under way."},
		{method: "POST", path: "/api/v1/tasks", data: true, serve: (*handler).createTask, what: "Has a client copy or move one object.",
			body: "`kind`: `copy` or `move`; `key`; `tenant_id`; `source`: name of a segment, for a copy by default any; `targets`: names, one for a move"},
		{method: "GET", path: "/api/v1/tasks", params: []string{"task_id"}, data: true, serve: (*handler).queryTask, what: "How far a task is."},
		{method: "GET", path: "/api/v1/tenant_quotas", params: []string{"tenant_id"}, data: true, serve: (*handler).tenantQuotas,
			what: "The quotas of all tenants, or of one. 409 while the master serves one tenant only, as for the two below."},
		{method: "PUT", path: "/api/v1/tenant_quotas", params: []string{"tenant_id"}, data: true, serve: (*handler).setTenantQuota,
			what: "Registers a tenant or changes its quota.", body: "`requested_quota_bytes`: 1 to 2^63-1"},
		{method: "DELETE", path: "/api/v1/tenant_quotas", params: []string{"tenant_id"}, data: true, serve: (*handler).deleteTenantQuota,
			what: "Takes a tenant out. 409 while it has objects."},
		{method: "GET", path: "/api/v1/summary", what: "The figures of `/metrics/summary` as numbers, counted since the start.", serve: (*handler).summaryJSON},
	}
}

package access

import (
	"slices"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/sdk/security"
)

// The services of the table that are no HTTP ports.
const (
	MasterService   = "mooncake.master.v1.MasterService"
	TierService     = "mooncake.node.v1.TierService"
	StatusService   = "mooncake.local.v1.StatusService"
	UpstreamService = "upstream"  // functions of upstream's masters that MasterService has not
	Handshake       = "handshake" // requests between transfer engines
	Profiles        = "profiles"  // of every HTTP port, with debug.pprof http
)

// Call is a row of the table: something that a peer can ask for.
type Call struct {
	// Service is the service of a call by RPC, or the door of an HTTP port.
	Service string
	// Name is the method, or the method and the path.
	Name string
	// Roles may make it. Masters may make every call.
	Roles []security.Role
	// Audit says how the log tells of it.
	Audit Audit
	// Pool marks what concerns all tenants: an identity that has a tenant may not make it.
	Pool bool

	bit int
}

// Audit is how the log tells of a call.
type Audit uint8

// The ways.
const (
	Silent  Audit = iota // it changes nothing, or is part of a call that is told
	Counted              // it is counted, and told once a minute
	Told                 // each call has a line
)

func (c *Call) String() string { return c.Service + " " + c.Name }

// Sets of roles.
var (
	anyone   = security.Roles()
	masters  = []security.Role{}
	members  = []security.Role{security.RoleStore, security.RoleClient}
	users    = []security.Role{security.RoleStore, security.RoleClient, security.RoleOperator}
	callers  = []security.Role{security.RoleClient, security.RoleOperator}
	admins   = []security.Role{security.RoleOperator}
	watchers = []security.Role{security.RoleOperator, security.RoleReader}
)

// table has every call. A call that it lacks is refused.
var table = func() []*Call {
	all := slices.Concat(
		calls(MasterService, anyone, Silent, "Ready", "Segments"),
		calls(MasterService, members, Told, "MountSegment", "UnmountSegment"),
		calls(MasterService, members, Silent, "Attach", "Report", "Pull", "FetchTasks"),
		calls(MasterService, masters, Silent, "Follow"),
		calls(MasterService, users, Silent, "Ping", "RemountSegments", "QueryHosts", "Exist", "GetReplicas", "GetReplicasByRegex", "ListKeys", "Why", "QueryTask"),
		calls(MasterService, members, Silent, "PutStart"),
		calls(MasterService, members, Counted, "PutEnd", "PutRevoke", "ClearReplicas", "CopyStart", "CopyEnd", "CopyRevoke", "CompleteTask"),
		calls(MasterService, users, Counted, "Remove"),
		calls(MasterService, users, Told, "RemoveByRegex", "RemoveAll", "CreateTask"),
		calls(UpstreamService, members, Silent, "GetFsdir", "GetStorageConfig", "QuerySegmentStatus", "QuerySegmentStatusById",
			"MountNoFSegment", "ReMountNoFSegment", "UnmountNoFSegment", "GetAllNoFSegments", "GetNoFSegmentsByName",
			"EvictDiskReplica", "BatchEvictDiskReplica", "DynamicReplicaCopyStart", "DynamicReplicaCopyEnd", "DynamicReplicaCopyRevoke",
			"MountLocalDiskSegment", "UnmountLocalDiskSegment", "OffloadObjectHeartbeat", "NotifyOffloadSuccess", "ReportSsdCapacity", "PollRemoveAll",
			"PromotionAllocStart", "PromotionObjectHeartbeat", "NotifyPromotionSuccess", "NotifyPromotionFailure"),

		calls(TierService, members, Silent, "Stage", "Release"),
		calls(StatusService, anyone, Silent, "Status"),
		calls(Handshake, members, Silent, "metadata", "probe", "notify", "connection"),

		route(config.DoorAdmin, anyone, Silent, "GET /health", "GET /role", "GET /ha_status", "GET /leader"),
		route(config.DoorAdmin, watchers, Silent, "GET /metrics", "GET /metrics/summary", "GET /kv_events/status", "GET /api/v1/summary",
			"GET /get_all_segments", "GET /get_segments_detail", "GET /query_segment", "GET /api/v1/segments", "GET /api/v1/segments/status"),
		route(config.DoorAdmin, admins, Silent, "GET /query_key", "GET /batch_query_keys", "GET /get_all_keys", "GET /api/v1/why", "GET /api/v1/keys",
			"GET /api/v1/tasks", "GET /api/v1/tenant_quotas"),
		route(config.DoorAdmin, admins, Told, "POST /api/v1/remove", "POST /api/v1/remove_all", "POST /api/v1/tasks"),
		ofPool(route(config.DoorAdmin, admins, Silent, "GET /api/v1/drain_jobs/query")),
		ofPool(route(config.DoorAdmin, admins, Told, "POST /api/v1/drain_jobs", "POST /api/v1/drain_jobs/cancel",
			"PUT /api/v1/tenant_quotas", "DELETE /api/v1/tenant_quotas")),

		route(config.DoorMetadata, anyone, Silent, "GET /health"),
		route(config.DoorMetadata, users, Silent, "GET /metadata"),
		route(config.DoorMetadata, users, Counted, "PUT /metadata", "DELETE /metadata"),

		route(config.DoorHealth, anyone, Silent, "GET /health"),
		route(config.DoorHealth, watchers, Silent, "GET /metrics", "GET /metrics/summary"),

		route(config.DoorREST, callers, Silent, "GET /api/get/", "GET /api/exist/"),
		route(config.DoorREST, callers, Counted, "PUT /api/put", "DELETE /api/remove/"),
		route(config.DoorREST, callers, Told, "DELETE /api/remove_all"),
		ofPool(route(config.DoorREST, admins, Told, "POST /api/mount", "POST /api/unmount", "POST /api/mount_shm", "POST /api/unmount_shm",
			"POST /api/unmount_local_disk", "POST /api/reconfigure")),

		ofPool(calls(Profiles, admins, Silent, "GET /debug/pprof/")),
	)
	for i, c := range all {
		c.bit = i
	}
	return all
}()

func calls(service string, roles []security.Role, audit Audit, names ...string) []*Call {
	var out []*Call
	for _, n := range names {
		out = append(out, &Call{Service: service, Name: n, Roles: roles, Audit: audit})
	}
	return out
}

func route(door config.Door, roles []security.Role, audit Audit, names ...string) []*Call {
	return calls(string(door), roles, audit, names...)
}

func ofPool(list []*Call) []*Call {
	for _, c := range list {
		c.Pool = true
	}
	return list
}

// Table returns every call, in the order of the documentation.
func Table() []*Call { return slices.Clone(table) }

var byName = func() map[[2]string]*Call {
	m := make(map[[2]string]*Call, len(table))
	for _, c := range table {
		m[[2]string{c.Service, c.Name}] = c
	}
	return m
}()

// Find returns a call, nil for one that the table lacks, which Check refuses.
func Find(service, name string) *Call { return byName[[2]string{service, name}] }

// set has a bit for each call of the table.
type set [2]uint64

func (s *set) has(c *Call) bool { return s[c.bit>>6]&(1<<(c.bit&63)) != 0 }

// allowed returns the calls that an identity may make.
func allowed(id security.Identity) (s set) {
	for _, c := range table {
		if id.Role == security.RoleMaster || slices.Contains(c.Roles, id.Role) && (!c.Pool || id.Tenant == "") {
			s[c.bit>>6] |= 1 << (c.bit & 63)
		}
	}
	return s
}

package config

import (
	"strings"
	"time"
)

// HAEmbedded is the ha_backend_type of masters that run the etcd that elects one of them.
const HAEmbedded = "embedded"

// Master is the master's section. Port 0 means any free port.
type Master struct {
	RPCAddress          string        `koanf:"rpc_address" default:"0.0.0.0" doc:"address the RPC server binds; :: for every IPv6 and IPv4 address"`
	RPCPort             int           `koanf:"rpc_port" type:"port" default:"50051" doc:"port of the RPC server"`
	RPCInterface        string        `koanf:"rpc_interface" default:"" doc:"network interface whose address replaces rpc_address: its first IPv4 address, else its first global IPv6 address"`
	RPCConnTimeout      time.Duration `koanf:"rpc_conn_timeout" unit:"s" default:"0s" range:"0s..24h" doc:"how long a connection may be without a call before the master closes it; 0 never closes it"`
	RPCMaxConnections   int           `koanf:"rpc_max_connections" default:"0" range:"0..1048576" doc:"how many connections the RPC server has; a new one takes the place of one that has been idle for long. 0 is what the limit on open files leaves"`
	RPCMemoryBudget     Size          `koanf:"rpc_memory_budget" default:"0" range:"0..1TiB" doc:"memory that all requests of more than 64 KiB together may take in the master; a byte of a request counts as four, and more requests wait unread. 0 is 512 MiB, or a quarter of the memory that the master may have where that is less"`
	RPCEnableTCPNoDelay bool          `koanf:"rpc_enable_tcp_no_delay" default:"true" doc:"send small messages of the RPC server at once (TCP_NODELAY)"`

	UpstreamClients bool `koanf:"upstream_clients" default:"true" doc:"serve the clients of upstream's releases 0.3.9 to 0.3.13 at the RPC port, beside this project's own; without it they are turned away"`

	Evictor   string `koanf:"evictor" type:"plugin" default:"prefix" doc:"eviction policy: the name of an evict plugin"`
	Allocator string `koanf:"allocator" type:"plugin" default:"arena" doc:"memory allocator: the name of an alloc plugin"`

	LeaseTTL                   time.Duration `koanf:"lease_ttl" unit:"ms" default:"10s" range:"1ms..720h" doc:"how long a read keeps an object from being evicted or removed"`
	ProbeLeaseTTL              time.Duration `koanf:"probe_lease_ttl" unit:"ms" default:"0s" range:"0s..720h" doc:"how long a lookup that reads nothing keeps an object; 0 stands for lease_ttl"`
	EvictionHighWatermarkRatio float64       `koanf:"eviction_high_watermark_ratio" default:"0.9" range:"0..1" doc:"used share of the memory at which eviction starts; 1 evicts only when an allocation fails"`
	EvictionRatio              float64       `koanf:"eviction_ratio" default:"0.05" range:"0..1" doc:"share of the memory that one round of eviction frees"`
	ClientTTL                  time.Duration `koanf:"client_ttl" unit:"s" default:"10s" range:"1s..24h" doc:"how long a node may be silent before its segments count as absent, or are dropped where they have no ledger"`
	SegmentRetention           time.Duration `koanf:"segment_retention" unit:"s" default:"10m" range:"0s..24h" doc:"how long what lies in the segments of a silent node is remembered in case it returns; 0 forgets it with client_ttl"`
	PutStartDiscardTimeout     time.Duration `koanf:"put_start_discard_timeout" unit:"s" default:"30s" range:"1s..24h" doc:"age at which an unfinished put gives way to another put of the key"`
	PutStartReleaseTimeout     time.Duration `koanf:"put_start_release_timeout" unit:"s" default:"10m" range:"1s..168h" doc:"age at which the memory of an unfinished put is freed; longer than put_start_discard_timeout"`
	MaxOpenPutsPerClient       int           `koanf:"max_open_puts_per_client" default:"262144" range:"0..4294967295" doc:"unfinished puts that one client may have; 0 for any number"`
	MaxOpenRatioPerClient      float64       `koanf:"max_open_ratio_per_client" default:"0.9" range:"0..1" doc:"share of the pool's memory that the unfinished puts of one client may occupy, if there is more than one; 0 for all of it"`
	AllocationStrategy         string        `koanf:"allocation_strategy" default:"random" enum:"random|free_ratio_first|ssd_free_ratio_first|local_first" later:"cxl" fallback:"random" doc:"how the segments of an object are chosen"`
	StripeSize                 Size          `koanf:"stripe_size" default:"64MiB" range:"1MiB..1TiB" doc:"an object larger than this is laid over several segments"`
	ClusterID                  string        `koanf:"cluster_id" type:"cluster" default:"mooncake_cluster" doc:"name of the cluster: 1 to 128 letters, digits and _ . -"`

	Cells     int `koanf:"cells" default:"1" range:"1..64" doc:"into how many cells the key space is cut, each with a leader of its own among the masters; fixed when the cluster begins, the same for all masters, and above 1 with enable_ha over etcd only"`
	CellsPort int `koanf:"cells_port" default:"0" range:"0..65535" doc:"port at which the first cell is served where this master leads it, the others at the ports after it; 0 takes free ones. Not used with one cell"`

	EnableHA            bool          `koanf:"enable_ha" default:"false" doc:"be one of several masters, of which the one that a service elects serves; the RPC port is open only there"`
	HABackendType       string        `koanf:"ha_backend_type" default:"etcd" enum:"etcd|redis|k8s|embedded" doc:"what elects the leader; embedded is an etcd of which each master runs one member"`
	HABackendConnstring string        `koanf:"ha_backend_connstring" default:"" doc:"where that is: host:port;host:port of etcd, also with etcd:// or https:// before it; redis://host:port; namespace/lease of Kubernetes. Empty takes etcd_endpoints"`
	EtcdEndpoints       string        `koanf:"etcd_endpoints" default:"" doc:"where etcd is, if ha_backend_connstring is empty"`
	HAFollowPort        int           `koanf:"ha_follow_port" default:"0" range:"0..65535" doc:"port at which a master that does not lead is told by the stores what the leader writes, so that it can take over at once; 0 takes a free one"`
	HAMembers           []string      `koanf:"ha_members" default:"" doc:"masters of an embedded etcd, the same list on each of 3 to 7 machines: name=host,name=host,name=host, also name=host:client_port:peer_port; the ports are 2379 and 2380 by default"`
	HAMember            string        `koanf:"ha_member" default:"" doc:"name of this master in ha_members; empty for the one whose host is rpc_address"`
	HADataDir           string        `koanf:"ha_data_dir" default:"" doc:"folder of this master's etcd member; empty for CLUSTER_ID/MEMBER below $STATE_DIRECTORY, /var/lib/mooncake (root) or $XDG_STATE_HOME/mooncake"`
	HAMemberProgram     string        `koanf:"ha_member_program" default:"" doc:"path of the program that is an etcd member, such as /usr/bin/etcd; empty for mooncake_etcd beside this program or in PATH"`
	HALeaseTTL          time.Duration `koanf:"ha_lease_ttl" unit:"s" default:"2s" range:"1s..1h" doc:"how long a leader that the service does not hear from leads; in whole seconds, and etcd grants no less than twice its election timeout"`

	SoftPinTTL                  time.Duration `koanf:"soft_pin_ttl" unit:"ms" default:"30m" range:"1ms..8760h" doc:"how long a soft pin that names no time of its own holds; at most max_soft_pin_ttl"`
	MaxSoftPinTTL               time.Duration `koanf:"max_soft_pin_ttl" unit:"ms" default:"24h" range:"1ms..8760h" doc:"longest soft pin that a client may ask for"`
	AllowEvictSoftPinnedObjects bool          `koanf:"allow_evict_soft_pinned_objects" default:"true" doc:"evict soft-pinned objects where nothing else is left to evict"`

	RootFSDir          string `koanf:"root_fs_dir" default:"" doc:"folder on a file system that all stores mount: a store without storage tiers of its own makes one in ROOT_FS_DIR/CLUSTER_ID, as with enable_offload"`
	QuotaBytes         Size   `koanf:"quota_bytes" default:"0" range:"0..1024TiB" doc:"size of each of these storage tiers; 0 takes ten times the memory of the store, and 90 % of what is free at most"`
	EnableDiskEviction bool   `koanf:"enable_disk_eviction" default:"true" doc:"evict objects from these storage tiers when they are full; without it nothing more is saved then"`

	EnableOffload               bool    `koanf:"enable_offload" default:"false" doc:"take the storage tiers of nodes, which keep what leaves memory"`
	OffloadOnEvict              bool    `koanf:"offload_on_evict" default:"false" doc:"save objects when eviction chooses them, and not when they are put; needs enable_offload"`
	OffloadForceEvict           bool    `koanf:"offload_force_evict" default:"false" doc:"with offload_on_evict: have one eviction save no more objects than offload_cap_ratio allows, and evict the others unsaved. Without it they stay until a put needs their memory"`
	OffloadCapRatio             float64 `koanf:"offload_cap_ratio" default:"0.5" range:"0..1" doc:"with offload_force_evict: share of offloading_queue_limit that one eviction may have saved"`
	OffloadingQueueLimit        int     `koanf:"offloading_queue_limit" default:"50000" range:"1..100000000" doc:"objects of one node that may wait to be saved; beyond it, those that wait longest are not saved"`
	PromotionOnHit              bool    `koanf:"promotion_on_hit" default:"false" doc:"bring objects that are read on a storage tier back into memory; needs enable_offload"`
	PromotionQueueLimit         int     `koanf:"promotion_queue_limit" default:"50000" range:"0..4294967295" doc:"objects that all nodes together bring back into memory at the same time"`
	PromotionMaxPerHeartbeat    int     `koanf:"promotion_max_per_heartbeat" default:"1" range:"1..4294967295" doc:"objects that one node brings back into memory at the same time"`
	PromotionAdmissionThreshold int     `koanf:"promotion_admission_threshold" default:"2" range:"1..255" doc:"the read of an object on a storage tier that brings it back into memory"`

	EnableMultiTenants       bool   `koanf:"enable_multi_tenants" default:"false" doc:"keep the objects and the quotas of tenants apart"`
	TenantQuotaConnectorType string `koanf:"tenant_quota_connector_type" default:"file" enum:"file|etcd" doc:"where the quotas of tenants come from; etcd has them for all masters of a cluster, at upstream's key mooncake-store/CLUSTER/tenant_quota_policy"`
	TenantQuotaConnectorURI  string `koanf:"tenant_quota_connector_uri" default:"" doc:"path of the quota file; or where etcd is, empty for the one that elects the leader"`

	MaxTotalFinishedTasks   int           `koanf:"max_total_finished_tasks" default:"10000" range:"0..4294967295" doc:"finished tasks that the master remembers"`
	MaxTotalPendingTasks    int           `koanf:"max_total_pending_tasks" default:"10000" range:"0..4294967295" doc:"tasks that may wait for a node"`
	MaxTotalProcessingTasks int           `koanf:"max_total_processing_tasks" default:"10000" range:"0..4294967295" doc:"tasks that nodes may work on"`
	PendingTaskTimeout      time.Duration `koanf:"pending_task_timeout" unit:"s" default:"5m" range:"0s..8760h" doc:"age at which a waiting task fails; 0 for never"`
	ProcessingTaskTimeout   time.Duration `koanf:"processing_task_timeout" unit:"s" default:"5m" range:"0s..8760h" doc:"age at which a task in progress fails; 0 for never"`
	MaxRetryAttempts        int           `koanf:"max_retry_attempts" default:"10" range:"0..4294967295" doc:"how often a node tries a task again"`

	EnableKVEvents           bool   `koanf:"enable_kv_events" default:"false" doc:"publish an event for every object that becomes readable or goes, for routers; needs kv_events_bind_endpoint and kv_events_backend_id"`
	KVEventsBindEndpoint     string `koanf:"kv_events_bind_endpoint" default:"" doc:"where subscribers of KV events connect: tcp://host:port, with * for any address of this machine, or ipc:///path"`
	KVEventsBackendID        string `koanf:"kv_events_backend_id" default:"" doc:"name of this pool in every KV event"`
	KVEventsQueueCapacity    int    `koanf:"kv_events_queue_capacity" default:"65536" range:"0..4294967295" doc:"KV events that may wait to be published before the oldest make way; 0 and more than 4194304 stand for 4194304"`
	KVEventsEmitLegacyCompat bool   `koanf:"kv_events_emit_legacy_compat" default:"true" doc:"add the fields of inference engines to KV events: type, block_hashes, parent_block_hash"`
	KVEventsEmitObjectKey    bool   `koanf:"kv_events_emit_object_key" default:"true" doc:"add the key to KV events; without it, events on keys that are no hash are left out"`

	WhyHistory int `koanf:"why_history" default:"262144" range:"0..16777216" doc:"how many keys that are gone the master can still explain"`

	EnableMetricReporting          bool   `koanf:"enable_metric_reporting" default:"true" doc:"write a log line with the metrics every 10 s"`
	MetricsHost                    string `koanf:"metrics_host" default:"0.0.0.0" doc:"address the admin HTTP server binds; :: for every IPv6 and IPv4 address"`
	MetricsPort                    int    `koanf:"metrics_port" type:"port" default:"9003" doc:"port of the admin HTTP server"`
	EnableHTTPMetadataServer       bool   `koanf:"enable_http_metadata_server" default:"false" doc:"serve the metadata of the transfer engine over HTTP"`
	HTTPMetadataServerHost         string `koanf:"http_metadata_server_host" default:"0.0.0.0" doc:"address the embedded metadata server binds"`
	HTTPMetadataServerPort         int    `koanf:"http_metadata_server_port" type:"port" default:"8080" doc:"port of the embedded metadata server"`
	EnableMetadataCleanupOnTimeout bool   `koanf:"enable_metadata_cleanup_on_timeout" default:"false" doc:"remove the metadata of a node whose client_ttl is over"`
}

// QuotasInEtcd is the TenantQuotaConnectorType for etcd.
const QuotasInEtcd = "etcd"

// QuotaEtcd is where the etcd is that has the quotas, empty if no setting says it.
func (m Master) QuotaEtcd() string {
	switch {
	case m.TenantQuotaConnectorURI != "":
		return m.TenantQuotaConnectorURI
	case m.HABackendType == "etcd":
		return m.HABackend()
	}
	return m.EtcdEndpoints
}

// HABackend is where the service is that elects the leader, empty for none.
func (m Master) HABackend() string {
	if m.HABackendType == HAEmbedded {
		return strings.Join(m.HAMembers, ",")
	}
	if m.HABackendConnstring != "" {
		return m.HABackendConnstring
	}
	return m.EtcdEndpoints
}

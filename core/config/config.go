// Package config turns defaults, a file, the environment and the command line into one
// checked Config, and remembers where every value came from.
//
// Layers, low to high: built-in defaults, defaults of plugins, the file (YAML or JSON),
// environment variables, flags that were really set. A flag given its default value still
// wins over the file. Within the environment our own names win over upstream's; in one file or on one command line two names for the same setting
// must agree.
//
// Everything unknown is refused with its place and the nearest known name, except in the
// environment, which is shared: there it is a warning. Upstream's
// flags, file keys and variables are read as well and map onto the same keys; one that
// has no effect yet is a Warning, and one that asks for durability, availability or
// isolation that cannot be given is an error.
//
// The package reads nothing on its own but the configuration file: arguments and
// environment are passed in. All functions are safe for concurrent use.
package config

import (
	"time"

	"github.com/mooncake-go/mooncake/core/config/internal/value"
)

// Size is a number of bytes, never negative. Its text form is what the file takes.
type Size = value.Size

// The binary multiples of Size.
const (
	KiB = value.KiB
	MiB = value.MiB
	GiB = value.GiB
	TiB = value.TiB
)

// Config holds every setting, checked and complete. It is plain data; copy it freely, but
// treat the maps and slices in it as read only.
//
// The tags of the fields are the schema: koanf is the key, default, range, enum and unit
// (what a bare number counts in) are what is allowed, doc is the line in the reference,
// and soon names the capability of a setting that is accepted and has no effect yet, which
// is an error instead of a warning where refuse says that it would break a promise.
type Config struct {
	Log      Log      `koanf:"log"`
	Master   Master   `koanf:"master"`
	Metadata Metadata `koanf:"metadata"`
	Store    Store    `koanf:"store"`
	Admin    Admin    `koanf:"admin"`
	Debug    Debug    `koanf:"debug"`
	Net      Net      `koanf:"net"`
	Memory   Memory   `koanf:"memory"`
	Security Security `koanf:"security"`
	Plugins  Plugins  `koanf:"plugins"`
}

// Admin is how the commands of this machine reach a process.
type Admin struct {
	Socket string `koanf:"socket" type:"socket" default:"auto" doc:"unix socket on which commands of this machine, such as 'mooncake plugins list', reach the process: auto makes one for a master, metadata server, store or served client, in $XDG_RUNTIME_DIR/mooncake/admin, /run/mooncake/admin, /tmp/mooncake-UID or /dev/shm/mooncake-UID; on makes one also for the library in a process of its user; off makes none; an absolute path is where it is made"`
}

// The values of Admin.Socket that are no path.
const (
	SocketAuto = "auto" // where the process is a role of its own
	SocketOn   = "on"   // also for a library in another program's process
	SocketOff  = "off"
)

// Debug holds the settings that show developers the inside of a process.
type Debug struct {
	Pprof                string `koanf:"pprof" default:"off" enum:"off|socket|http" doc:"where profiles of the Go runtime are served, below /debug/pprof: off nowhere; socket on the admin socket, for the own user and root; http also on the admin port of a master and the HTTP port of a store or served client, for every client that reaches those"`
	BlockProfileRate     int    `koanf:"block_profile_rate" default:"0" range:"0..1000000000" doc:"nanoseconds of waiting of which one sample is taken for the block profile; 0 takes none, 1 all; only where pprof serves profiles"`
	MutexProfileFraction int    `koanf:"mutex_profile_fraction" default:"0" range:"0..1000000" doc:"of how many waits for a lock one is noted in the mutex profile; 0 notes none, 1 all; only where pprof serves profiles"`
}

// The values of Debug.Pprof.
const (
	PprofOff    = "off"
	PprofSocket = "socket" // only the user of the process and root
	PprofHTTP   = "http"   // also on the HTTP port for operators
)

// Net is how a process deals with its connections, whatever they are for.
type Net struct {
	BusyPoll time.Duration `koanf:"busy_poll" default:"200us" range:"0s..10ms" doc:"how long a wait for a peer looks for its answer before it sleeps, where that has paid lately: sooner answers for processor time; 0 to sleep at once"`
}

// Memory is how much memory a process takes besides what it contributes to the pool.
type Memory struct {
	GoLimit string `koanf:"go_limit" type:"limit" default:"auto" doc:"soft limit of the Go runtime's memory, which the garbage collector works towards, in a master, metadata server, store or served client: auto takes GOMEMLIMIT where it is set, else nine tenths of what the control group allows, without the segments and buffers that the process maps; off leaves the runtime alone; a size of at least 64MiB is the limit"`
}

// The words of Memory.GoLimit, and the least size that it takes.
const (
	limitAuto, limitOff = "auto", "off"
	leastLimit          = 64 * MiB
)

// Limit returns the size of GoLimit, 0 where it is a word.
func (m Memory) Limit() Size {
	n, err := value.ParseSize(m.GoLimit)
	if err != nil {
		return 0
	}
	return n
}

// Off reports whether GoLimit leaves the runtime alone.
func (m Memory) Off() bool { return m.GoLimit == limitOff }

// Log is what every process says and how.
type Log struct {
	Level  string `koanf:"level" default:"info" enum:"debug|info|warn|error" doc:"least severe messages that are written"`
	Format string `koanf:"format" default:"text" enum:"text|json" doc:"form of the log lines"`
	Dir    string `koanf:"dir" default:"" doc:"directory of the log file PROGRAM.HOST.USER.log.INFO.TIME.PID, with the link PROGRAM.INFO to the newest; empty for none"`
	Stderr string `koanf:"stderr" default:"auto" enum:"auto|also|only" doc:"whether lines go to standard error: auto where there is no dir, and errors always; also beside the file; only instead of it"`

	MaxSize Size `koanf:"max_size" default:"1800MiB" range:"1MiB..1TiB" doc:"size at which a new log file is begun"`
	Keep    int  `koanf:"keep" default:"10" range:"1..10000" doc:"log files of one program that are kept in dir; older ones are removed"`
}

// Metadata is the section of the metadata server that runs as its own process.
type Metadata struct {
	Host string `koanf:"host" default:"0.0.0.0" doc:"address the metadata server binds"`
	Port int    `koanf:"port" type:"port" default:"8080" doc:"port of the metadata server"`
}

// Store is the section of a node that contributes memory, and of a client.
type Store struct {
	LocalHostname       string        `koanf:"local_hostname" default:"localhost" doc:"name or address, with or without a port, under which peers reach this node; the name of its segment"`
	MetadataServer      string        `koanf:"metadata_server" default:"P2PHANDSHAKE" doc:"where nodes find each other: http://host:port/metadata, etcd://host:port,host:port, redis://host:port, or P2PHANDSHAKE to ask each other; a bare host:port is etcd"`
	MetadataClusterID   string        `koanf:"metadata_cluster_id" default:"" doc:"separates clusters that share one metadata server: empty, or letters, digits and _ . -"`
	MetadataRefresh     time.Duration `koanf:"metadata_refresh" unit:"s" default:"0s" range:"0s..24h" doc:"how often the descriptors of known peers are looked up anew; 0 only when something is missing"`
	MetadataCache       bool          `koanf:"metadata_cache" default:"true" doc:"keep the descriptors of peers between transfers"`
	MetadataUsername    string        `koanf:"metadata_username" default:"" doc:"user at a redis or etcd metadata service"`
	MetadataPassword    string        `koanf:"metadata_password" default:"" doc:"password at a redis or etcd metadata service"`
	MetadataDB          int           `koanf:"metadata_db" default:"0" range:"0..255" doc:"number of the database in redis"`
	AdvertiseHost       string        `koanf:"advertise_host" default:"" doc:"address or name under which peers connect to this node; empty for the host of local_hostname"`
	MasterServerAddress string        `koanf:"master_server_address" type:"address" default:"127.0.0.1:50051" doc:"where the master is: host:port; host:port,host:port of several masters, of which the one that leads is found; or etcd://host:port;host:port, where the masters of cluster_id keep who leads"`
	Protocol            string        `koanf:"protocol" type:"plugin" default:"tcp" doc:"preferred transport: the name of a transport plugin"`
	DeviceNames         []string      `koanf:"device_names" default:"" doc:"network devices a transport may use; empty, or auto-discovery, leaves the choice to it"`
	AutoDiscovery       string        `koanf:"auto_discovery" default:"auto" enum:"auto|on|off" doc:"where a transport's network devices come from: device_names, or the machine where it is empty; always the machine; only device_names"`
	DeviceFilter        []string      `koanf:"device_filter" default:"" doc:"of the devices that are found without device_names, those that may be used; empty allows all"`
	DeviceAllow         []string      `koanf:"device_allow" default:"" doc:"network devices that may be used at all; empty allows all"`
	DeviceExclude       []string      `koanf:"device_exclude" default:"" doc:"network devices that are never used"`
	PeerAffinity        string        `koanf:"peer_affinity" default:"" doc:"which network devices of peers go with which of this node: local=peer,peer;local=peer; empty pairs them by name, then by order"`
	TopologyFile        string        `koanf:"topology_file" default:"" doc:"JSON file with the priority matrix of this machine's network devices, in place of what the machine says"`
	Transports          []string      `koanf:"transports" default:"tcp" doc:"transport plugins, best first; follows protocol where it is not given itself"`
	SharedMemory        string        `koanf:"shared_memory" default:"auto" enum:"auto|off" doc:"whether peers on this host are reached through shared memory: auto puts the transport shm before what protocol names, where transports is not given itself"`

	GlobalSegmentSize Size          `koanf:"global_segment_size" default:"4GiB" doc:"memory this node contributes to the pool; 0 contributes none"`
	Keep              string        `koanf:"keep" type:"keep" default:"auto" doc:"where a store keeps its memory beyond the life of its process, so that a restart, kill -9 or upgrade loses no objects: off; systemd, the descriptor store of its unit (FileDescriptorStoreMax=); keeper, the 'mooncake keep' of this user, which the store starts if none runs; the socket of a keeper, a path or @ and an abstract name; the path of an existing directory of a hugetlbfs, a tmpfs or a DAX file system, where the memory is files that stay until they are removed; auto takes systemd's store, else a keeper of this user that runs already, else none"`
	KeepTime          time.Duration `koanf:"keep_time" unit:"s" default:"120s" range:"1s..24h" doc:"how long a keeper that the store starts keeps memory while the store does not run"`
	LocalBufferSize   Size          `koanf:"local_buffer_size" default:"16MiB" range:"0..1TiB" doc:"staging memory for puts and gets from unregistered memory"`
	Checksum          bool          `koanf:"checksum" default:"true" doc:"compute a CRC32C on put and verify it on get, of objects and of ranges; false is the only way to read bytes that nothing has checked"`

	SliceSize        Size          `koanf:"slice_size" default:"1MiB" range:"4KiB..64MiB" doc:"largest piece that an object is cut into for moving"`
	MaxInflightBytes Size          `koanf:"max_inflight_bytes" default:"64MiB" range:"4KiB..1TiB" doc:"bytes in flight to one peer; at least slice_size"`
	TransferTimeout  time.Duration `koanf:"transfer_timeout" default:"0s" range:"0s..24h" doc:"bound on moving the bytes of one call; 0: as long as bytes move"`
	SliceTimeout     time.Duration `koanf:"slice_timeout" unit:"s" default:"5s" range:"1ms..24h" doc:"how long a path may move nothing before its pieces are tried elsewhere"`
	RetryCount       int           `koanf:"retry_count" default:"9" range:"1..127" doc:"how often one piece is tried again, on another path where there is one"`
	RailPause        time.Duration `koanf:"rail_pause" unit:"s" default:"30s" range:"1s..24h" doc:"longest pause of a path between two devices that keeps failing; the first is 1 s, and it doubles"`
	RPCTimeout       time.Duration `koanf:"rpc_timeout" unit:"ms" default:"30s" range:"1ms..24h" doc:"bound on one call to the master"`

	RPCConnectTimeout time.Duration `koanf:"rpc_connect_timeout" unit:"ms" default:"30s" range:"1ms..24h" soon:"a bound of its own on connecting to the master" doc:"bound on connecting to the master"`
	MasterDownTimeout time.Duration `koanf:"master_down_timeout" unit:"ms" default:"1s" range:"1ms..24h" doc:"bound on one call while the master is not reachable"`

	TenantID   string `koanf:"tenant_id" type:"tenant" default:"default" doc:"tenant whose objects this process sees"`
	ClusterID  string `koanf:"cluster_id" type:"cluster" default:"mooncake_cluster" doc:"name of the cluster that the master belongs to, under which etcd knows who leads"`
	HAUsername string `koanf:"ha_username" default:"" doc:"user at the service that elects the leader, for masters and members"`
	HAPassword string `koanf:"ha_password" default:"" doc:"password of that user"`
	HACAFile   string `koanf:"ha_ca_file" default:"" doc:"certificates of the authorities that the https endpoints of that service are signed by; empty for those of the system"`
	HACertFile string `koanf:"ha_cert_file" default:"" doc:"certificate that masters and members show to that service"`
	HAKeyFile  string `koanf:"ha_key_file" default:"" doc:"key of ha_cert_file"`

	Memcpy string `koanf:"memcpy" default:"auto" enum:"auto|on|off" soon:"the choice; local reads are always a memory copy" doc:"copy between buffers of one process without a transport; auto decides by the transports"`

	EnableOffload        bool          `koanf:"enable_offload" default:"false" doc:"keep what lies in this node's memory on its storage tiers as well; needs a master with enable_offload"`
	SSDOffloadPath       []string      `koanf:"ssd_offload_path" default:"/data/file_storage" doc:"existing folders for storage tiers of the plugin file, one tier each: absolute, best on different disks"`
	Tier                 string        `koanf:"tier" type:"plugin" default:"file" doc:"storage tier: the name of a tier plugin; file is opened once for each folder of ssd_offload_path, any other one once"`
	TierEvictor          string        `koanf:"tier_evictor" type:"plugin" default:"prefix" doc:"what ranks the objects on a storage tier: the name of an evict plugin"`
	TierState            string        `koanf:"tier_state" default:"" doc:"existing folder for the ledger of a storage tier that is not file; empty for the first of ssd_offload_path"`
	OffloadSizeLimit     Size          `koanf:"offload_size_limit" default:"0" range:"0..1024TiB" doc:"size of each storage tier of the plugin file; 0 for 90 % of what is free in its folder when it is made"`
	OffloadBufferSize    Size          `koanf:"offload_buffer_size" default:"1280MiB" range:"64KiB..1TiB" doc:"memory through which storage tiers are read and written; no larger object is kept there"`
	OffloadBufferTTL     time.Duration `koanf:"offload_buffer_ttl" unit:"ms" default:"5s" range:"1ms..1h" doc:"how long what a peer has read from a storage tier waits in that memory for the peer to take it"`
	OffloadHighWatermark float64       `koanf:"offload_high_watermark" default:"0.9" range:"0..1" doc:"used share of a storage tier above which its objects are evicted; above offload_low_watermark"`
	OffloadLowWatermark  float64       `koanf:"offload_low_watermark" default:"0.8" range:"0..1" doc:"used share of a storage tier down to which they are evicted"`
	TierWriteBudget      Size          `koanf:"tier_write_budget" default:"0" range:"0..1024TiB" doc:"bytes that each storage tier gets in a day, to spare the disk; beyond it, what is put a second time is saved only. 0 for no bound"`
	OffloadPort          int           `koanf:"offload_port" default:"0" range:"0..65535" doc:"port at which peers read the storage tiers of this node; 0 takes a free one"`

	LocalHotCacheSize          Size `koanf:"local_hot_cache_size" default:"0" doc:"memory for copies of remote objects that are read often; 0 for none"`
	LocalHotBlockSize          Size `koanf:"local_hot_block_size" default:"16MiB" range:"4KiB..1TiB" doc:"block of the local hot cache; a larger object is not kept in it"`
	LocalHotCacheUseShm        bool `koanf:"local_hot_cache_use_shm" default:"false" soon:"local clients over shared memory" doc:"share the local hot cache with the local clients of this node"`
	LocalHotAdmissionThreshold int  `koanf:"local_hot_admission_threshold" default:"2" range:"1..255" doc:"reads after which an object enters the local hot cache"`

	ClientMetric          bool          `koanf:"client_metric" default:"true" doc:"count what this client does"`
	ClientMetricInterval  time.Duration `koanf:"client_metric_interval" unit:"s" default:"0s" range:"0s..24h" doc:"how often the client's metrics are written to the log; 0 for never"`
	ClientMetricBandwidth bool          `koanf:"client_metric_bandwidth" default:"true" doc:"count bandwidth among the client's metrics"`

	ClientMinPort int `koanf:"client_min_port" default:"12300" range:"1024..65535" doc:"first port that a local_hostname without a port may get; from 1024 to 32767 or from 61000 to 65535"`
	ClientMaxPort int `koanf:"client_max_port" default:"14300" range:"1024..65535" doc:"last port that a local_hostname without a port may get; in the same range as client_min_port"`
	RPCMinPort    int `koanf:"rpc_min_port" default:"15000" range:"1024..65535" doc:"first port that the handshake and the transports of this node may listen on; from 1024 to 32767 or from 61000 to 65535"`
	RPCMaxPort    int `koanf:"rpc_max_port" default:"17000" range:"1024..65535" doc:"last port that the handshake and the transports of this node may listen on; in the same range as rpc_min_port"`
	SetupRetries  int `koanf:"setup_retries" default:"20" range:"1..1000" doc:"how often the ports are gone through, 100 ms apart, before the start fails"`

	UseHugepage       bool   `koanf:"use_hugepage" default:"false" doc:"take segments and buffers from reserved huge pages; too few of them is an error, never ordinary pages"`
	HugepageSize      string `koanf:"hugepage_size" default:"2mb" enum:"2mb|1gb" doc:"size of the huge pages that use_hugepage takes"`
	NUMANode          int    `koanf:"numa_node" default:"-1" range:"-1..1023" doc:"NUMA node whose memory segments and buffers prefer; -1 leaves it to the kernel"`
	NUMAStrict        bool   `koanf:"numa_strict" default:"false" doc:"take memory of numa_node only, instead of going on with another node's when it is full"`
	MmapArenaPoolSize Size   `koanf:"mmap_arena_pool_size" default:"0" range:"0..16TiB" doc:"one mapping from which host buffers are cut; 0 maps each buffer by itself, and so does a pool that cannot be had"`
	DisableMmapArena  bool   `koanf:"disable_mmap_arena" default:"false" doc:"map each host buffer by itself whatever mmap_arena_pool_size says"`

	Port          int           `koanf:"port" type:"port" default:"50052" doc:"port on which 'mooncake client serve' says what it is doing; processes attach at the socket of the same number"`
	LocalSocket   string        `koanf:"local_socket" default:"" doc:"where processes of this host attach to 'mooncake client serve': an absolute path, or @ and an abstract name; empty is @@mooncake_client_PORT.sock of store.port"`
	LocalAccess   string        `koanf:"local_access" default:"user" enum:"user|any" doc:"the users that may attach, and that a client attaches to: the own user and root, or any user of this host, who can then read and write what the processes share"`
	LocalLendSize Size          `koanf:"local_lend_size" default:"256MiB" range:"0..1TiB" doc:"shared memory in which 'mooncake client serve' lends objects for reading; 0 lends none"`
	RESTHost      string        `koanf:"rest_host" default:"0.0.0.0" doc:"address the REST service binds"`
	RESTFiles     []string      `koanf:"rest_files" default:"" doc:"files that a request to the REST service may mount, as beginnings of their paths: /dev/shm/kv- allows /dev/shm/kv-0; they lie in /dev/shm or /dev/hugepages. Empty allows none"`
	RESTPort      int           `koanf:"rest_port" type:"port" default:"0" doc:"port of the REST service (PUT /api/put and so on); 0 for no service. The flag of 'mooncake store' is --port"`
	MaxWaitTime   time.Duration `koanf:"max_wait_time" unit:"s" default:"90s" range:"0s..24h" doc:"how long the start of a node, and setup of a store in an engine, keep trying to reach the master and the metadata service; 0 tries once"`

	HandshakePort           int           `koanf:"handshake_port" type:"port" default:"12001" range:"1..65535" doc:"port of the handshake in names of nodes that have none"`
	HandshakePortFromName   bool          `koanf:"handshake_port_from_name" default:"false" doc:"let the handshake listen on the port in local_hostname"`
	HandshakeBacklog        int           `koanf:"handshake_backlog" default:"128" range:"1..65535" doc:"handshakes that may wait to be accepted"`
	HandshakeConnectTimeout time.Duration `koanf:"handshake_connect_timeout" unit:"s" default:"5s" range:"1ms..24h" doc:"bound on looking a peer up and connecting to it"`
	HandshakeMaxLength      Size          `koanf:"handshake_max_length" default:"1MiB" range:"1MiB..128MiB" doc:"largest message of a handshake, which with P2PHANDSHAKE is a whole descriptor"`

	UnmountGrace time.Duration `koanf:"unmount_grace" default:"0s" range:"0s..1h" doc:"how long a store node that stops leaves its objects readable, while the master places no more there; 0 drops them at once"`

	EnableHTTPServer bool `koanf:"enable_http_server" default:"false" doc:"serve health and metrics of this node over HTTP"`
	HTTPPort         int  `koanf:"http_port" type:"port" default:"9300" doc:"port for health and metrics of this node"`
}

// ParseSize reads a size as the file takes it: "4GB", "1.5 GiB", "16777216". The error
// says what is allowed.
func ParseSize(text string) (Size, error) { return value.ParseSize(text) }

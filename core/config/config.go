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
// and soon names the capability of a setting that is accepted and has no effect yet.
type Config struct {
	Log      Log      `koanf:"log"`
	Master   Master   `koanf:"master"`
	Metadata Metadata `koanf:"metadata"`
	Store    Store    `koanf:"store"`
	Plugins  Plugins  `koanf:"plugins"`
}

// Log is what every process says and how.
type Log struct {
	Level  string `koanf:"level" default:"info" enum:"debug|info|warn|error" doc:"least severe messages that are written"`
	Format string `koanf:"format" default:"text" enum:"text|json" doc:"form of the log lines on standard error"`
}

// Master is the master's section. Port 0 means any free port.
type Master struct {
	RPCAddress   string `koanf:"rpc_address" default:"0.0.0.0" doc:"address the RPC server binds"`
	RPCPort      int    `koanf:"rpc_port" type:"port" default:"50051" doc:"port of the RPC server"`
	RPCInterface string `koanf:"rpc_interface" default:"" doc:"network interface whose IPv4 address replaces rpc_address"`

	Evictor   string `koanf:"evictor" type:"plugin" default:"lru" doc:"eviction policy: the name of an evict plugin"`
	Allocator string `koanf:"allocator" type:"plugin" default:"arena" doc:"memory allocator: the name of an alloc plugin"`

	LeaseTTL                   time.Duration `koanf:"lease_ttl" unit:"ms" default:"10s" range:"1ms..720h" doc:"how long a read keeps an object from being evicted or removed"`
	EvictionHighWatermarkRatio float64       `koanf:"eviction_high_watermark_ratio" default:"0.9" range:"0..1" doc:"used share of the memory at which eviction starts; 1 evicts only when an allocation fails"`
	EvictionRatio              float64       `koanf:"eviction_ratio" default:"0.05" range:"0..1" doc:"share of the memory that one round of eviction frees"`
	ClientTTL                  time.Duration `koanf:"client_ttl" unit:"s" default:"10s" range:"1s..24h" doc:"how long a node may be silent before its segments are dropped"`
	PutStartDiscardTimeout     time.Duration `koanf:"put_start_discard_timeout" unit:"s" default:"30s" range:"1s..24h" doc:"age at which an unfinished put gives way to another put of the key"`
	PutStartReleaseTimeout     time.Duration `koanf:"put_start_release_timeout" unit:"s" default:"10m" range:"1s..168h" doc:"age at which the memory of an unfinished put is freed; longer than put_start_discard_timeout"`
	AllocationStrategy         string        `koanf:"allocation_strategy" default:"random" enum:"random|free_ratio_first" later:"local_first|ssd_free_ratio_first|cxl" fallback:"random" doc:"how the segments of an object are chosen"`
	ClusterID                  string        `koanf:"cluster_id" type:"cluster" default:"mooncake_cluster" doc:"name of the cluster: 1 to 128 letters, digits and _ . -"`

	EnableMetricReporting    bool   `koanf:"enable_metric_reporting" default:"true" doc:"write a log line with the metrics every 10 s"`
	MetricsHost              string `koanf:"metrics_host" default:"0.0.0.0" doc:"address the admin HTTP server binds"`
	MetricsPort              int    `koanf:"metrics_port" type:"port" default:"9003" doc:"port of the admin HTTP server"`
	EnableHTTPMetadataServer bool   `koanf:"enable_http_metadata_server" default:"false" doc:"serve the metadata of the transfer engine over HTTP"`
	HTTPMetadataServerHost   string `koanf:"http_metadata_server_host" default:"0.0.0.0" doc:"address the embedded metadata server binds"`
	HTTPMetadataServerPort   int    `koanf:"http_metadata_server_port" type:"port" default:"8080" doc:"port of the embedded metadata server"`
}

// Metadata is the section of the metadata server that runs as its own process.
type Metadata struct {
	Host string `koanf:"host" default:"0.0.0.0" doc:"address the metadata server binds"`
	Port int    `koanf:"port" type:"port" default:"8080" doc:"port of the metadata server"`
}

// Store is the section of a node that contributes memory, and of a client.
type Store struct {
	LocalHostname       string   `koanf:"local_hostname" default:"localhost" doc:"name or address, with or without a port, under which peers reach this node; the name of its segment"`
	MetadataServer      string   `koanf:"metadata_server" default:"P2PHANDSHAKE" doc:"where nodes find each other: http://host:port/metadata, or P2PHANDSHAKE to ask each other"`
	MetadataClusterID   string   `koanf:"metadata_cluster_id" default:"" doc:"separates clusters that share one metadata server: empty, or letters, digits and _ . -"`
	MasterServerAddress string   `koanf:"master_server_address" type:"address" default:"127.0.0.1:50051" doc:"host:port of the master"`
	Protocol            string   `koanf:"protocol" type:"plugin" default:"tcp" doc:"preferred transport: the name of a transport plugin"`
	DeviceNames         []string `koanf:"device_names" default:"" doc:"network devices a transport may use; empty leaves the choice to it"`
	Transports          []string `koanf:"transports" default:"tcp" doc:"transport plugins, best first; follows protocol where it is not given itself"`

	GlobalSegmentSize Size `koanf:"global_segment_size" default:"4GiB" doc:"memory this node contributes to the pool; 0 contributes none"`
	LocalBufferSize   Size `koanf:"local_buffer_size" default:"16MiB" range:"0..1TiB" doc:"staging memory for puts and gets from unregistered memory"`
	Checksum          bool `koanf:"checksum" default:"true" doc:"compute a CRC32C on put and verify it on get"`

	SliceSize        Size          `koanf:"slice_size" default:"1MiB" range:"4KiB..64MiB" doc:"largest piece that an object is cut into for moving"`
	MaxInflightBytes Size          `koanf:"max_inflight_bytes" default:"64MiB" range:"4KiB..1TiB" doc:"bytes under way to one peer; at least slice_size"`
	TransferTimeout  time.Duration `koanf:"transfer_timeout" default:"30s" range:"1ms..24h" doc:"bound on moving one object"`
	RPCTimeout       time.Duration `koanf:"rpc_timeout" unit:"ms" default:"30s" range:"1ms..24h" doc:"bound on one call to the master"`

	Port             int  `koanf:"port" type:"port" default:"50052" soon:"local clients over shared memory" doc:"port for clients of this host that share this node's memory"`
	EnableHTTPServer bool `koanf:"enable_http_server" default:"false" doc:"serve health and metrics of this node over HTTP"`
	HTTPPort         int  `koanf:"http_port" type:"port" default:"9300" doc:"port for health and metrics of this node"`
}

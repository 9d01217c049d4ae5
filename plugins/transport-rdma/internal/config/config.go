// Package config holds the settings of the RDMA transport.
package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/blob"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
)

// Config holds the settings of the RDMA transport. Sizes are bytes. The limits of a
// device lower a setting silently.
type Config struct {
	Library      string   `json:"library" doc:"path of libibverbs; empty for the system's"`
	Devices      []string `json:"devices" length:"..32" doc:"names of the devices to use; empty for all"`
	IBPort       int      `json:"ib_port" default:"1" range:"1..255" doc:"port of every device, counted from 1"`
	GIDIndex     int      `json:"gid_index" default:"-1" range:"-1..255" doc:"address of the port; -1 to choose"`
	GIDRetries   int      `json:"gid_retries" default:"2" range:"0..16" doc:"how often a connection is tried again after the address of a port turned out not to work and another was chosen"`
	PKeyIndex    int      `json:"pkey_index" range:"0..65535" doc:"partition of the port"`
	MTU          int      `json:"mtu" default:"4096" enum:"512|1024|2048|4096" doc:"largest packet in bytes"`
	TrafficClass int      `json:"traffic_class" default:"-1" range:"-1..255" doc:"class that packets are marked with; -1 for 0"`
	ServiceLevel int      `json:"service_level" default:"-1" range:"-1..15" doc:"service level of packets; -1 for 0"`

	// QPPerEndpoint is how many queue pairs a connection has. Peers of upstream must have
	// as many.
	QPPerEndpoint int             `json:"qp_per_endpoint" default:"2" range:"1..255" doc:"queue pairs of a connection"`
	MaxWR         int             `json:"max_wr" default:"256" range:"1..32768" doc:"work requests in flight on a queue pair"`
	MaxSGE        int             `json:"max_sge" default:"4" range:"1..255" doc:"fragments of a work request; one is used"`
	MaxInline     int             `json:"max_inline" default:"64" range:"0..4096" doc:"writes up to this size are copied when posted"`
	SignalEvery   int             `json:"signal_every" range:"0..32768" doc:"work requests for each completion; 0 to choose"`
	WindowBytes   int64           `json:"window_bytes" default:"16MiB" range:"4KiB..1TiB" doc:"bytes in flight on a queue pair"`
	CQPerDevice   int             `json:"cq_per_device" default:"1" range:"1..255" doc:"completion queues that a device begins with; more are made when the connections need them"`
	CQDepth       int             `json:"cq_depth" default:"4096" range:"2..4194304" doc:"entries of a completion queue, more than max_wr"`
	Spin          plugin.Duration `json:"spin" default:"20µs" range:"0s..10ms" doc:"how long Reap polls the devices before it sleeps"`

	MaxEndpoints  int             `json:"max_endpoints" default:"65536" range:"1..65536" doc:"connections of a device, made and accepted each"`
	EndpointStore string          `json:"endpoint_store" default:"sieve" enum:"sieve|fifo" doc:"which idle connection gives way"`
	IdleTimeout   plugin.Duration `json:"idle_timeout" default:"5m" range:"1ms..24h" doc:"a connection without work for this long is closed"`

	RelaxedOrdering int   `json:"relaxed_ordering" default:"1" range:"0..2" doc:"0 never, 1 and 2 where supported"`
	MaxMRSize       int64 `json:"max_mr_size" default:"1TiB" range:"4KiB..1PiB" doc:"larger regions are registered in chunks"`
	// ParallelRegistration touches the pages of a large region from many threads first:
	// -1 for 4 GiB and more on 4 cores and more, 0 never, 1 always.
	ParallelRegistration int    `json:"parallel_registration" default:"-1" range:"-1..1" doc:"touch the pages of large regions from many threads; -1 to choose"`
	GPUMemory            string `json:"gpu_memory" default:"auto" enum:"auto|dmabuf|peermem" doc:"how memory of a GPU is registered: dmabuf, by its descriptor; peermem, by its address, with a kernel module; auto, dmabuf where there is a descriptor"`

	SliceBytes     int             `json:"slice_bytes" default:"256KiB" range:"4KiB..1GiB" doc:"operations are moved in slices of this size"`
	MaxInflightOps int             `json:"max_inflight_ops" default:"4096" range:"1..1048576" doc:"operations not yet reaped on one path before Submit accepts no more"`
	OpTimeout      plugin.Duration `json:"op_timeout" default:"30s" range:"1ms..24h" doc:"limit of an operation without a deadline of its own"`

	AckTimeout  int `json:"ack_timeout" default:"14" range:"1..31" doc:"4.096 us times two to this power"`
	RetryCount  int `json:"retry_count" default:"7" range:"0..7" doc:"how often the device sends again without an acknowledgement"`
	RNRRetry    int `json:"rnr_retry" default:"7" range:"0..7" doc:"how often the device sends again to a peer that is not ready; 7 without limit"`
	MinRNRTimer int `json:"min_rnr_timer" default:"12" range:"0..31" doc:"code of the pause that a peer asks for"`
	MaxReads    int `json:"max_reads" default:"16" range:"1..128" doc:"reads in flight on a queue pair"`

	HandshakeTimeout plugin.Duration `json:"handshake_timeout" default:"5s" range:"1ms..24h" doc:"limit for setting up a connection"`
	ReadyTimeout     plugin.Duration `json:"ready_timeout" default:"10s" range:"1ms..24h" doc:"limit for the second round with a peer of upstream"`
	FlushTimeout     plugin.Duration `json:"flush_timeout" default:"2s" range:"1ms..24h" doc:"limit for the work requests of a connection that ends"`
	ConfirmTimeout   plugin.Duration `json:"confirm_timeout" default:"1s" range:"1ms..24h" doc:"limit for the peer to say that it has ended too"`
	RailPause        plugin.Duration `json:"rail_pause" default:"5s" range:"1ms..24h" doc:"longest pause of a rail that keeps failing"`

	// Addresses is where peers set connections up, over TCP.
	transportkit.Addresses
	Upstream   bool   `json:"upstream" default:"true" doc:"allow connections with nodes of kvcache-ai/Mooncake"`
	ServerName string `json:"server_name" doc:"name of this node in such connections; empty for the name of its segment"`
}

// The values of Config.GPUMemory and Config.EndpointStore.
const (
	GPUAuto    = "auto"
	GPUDMABuf  = "dmabuf"
	GPUPeermem = "peermem"
	StoreSIEVE = "sieve"
	StoreFIFO  = "fifo"
)

// Default returns the defaults. Those that the reference implementation has too are
// the same.
func Default() *Config { return plugin.Defaults[Config]() }

// AckWait is AckTimeout as a time.
func (c *Config) AckWait() time.Duration {
	return time.Duration(4096) << c.AckTimeout // Nanoseconds.
}

// Validate implements plugin.Config.
func (c *Config) Validate() error {
	if c.CQDepth < c.MaxWR+1 {
		return fmt.Errorf("cq_depth is %d, must be more than max_wr (%d)", c.CQDepth, c.MaxWR)
	}
	return c.names()
}

func (c *Config) names() error {
	for i, d := range c.Devices {
		if d == "" || len(d) > blob.MaxName || strings.ContainsAny(d, "@/ \x00") {
			return fmt.Errorf("devices: %q is not the name of a device", d)
		}
		if slices.Contains(c.Devices[:i], d) {
			return fmt.Errorf("devices names %q twice", d)
		}
	}
	if len(c.ServerName) > 255 || strings.ContainsAny(c.ServerName, "@ \t\r\n\x00") {
		return fmt.Errorf("server_name is %q, must be at most 255 bytes without spaces and @", c.ServerName)
	}
	return c.Addresses.Validate()
}

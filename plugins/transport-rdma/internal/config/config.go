// Package config holds the settings of the RDMA transport.
package config

import (
	"time"

	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// Config holds the settings of the RDMA transport. Sizes are bytes. The limits of a
// device lower a setting silently.
type Config struct {
	// Library is the path of libibverbs, empty for the system's.
	Library string `json:"library"`
	// Devices are the names of the devices to use; empty for all.
	Devices []string `json:"devices"`
	// IBPort is the port of every device, counted from 1.
	IBPort int `json:"ib_port"`
	// GIDIndex is the address of the port to use, -1 to choose.
	GIDIndex int `json:"gid_index"`
	// GIDRetries is how often a connection is tried again after the address of a port
	// turned out not to work and another was chosen.
	GIDRetries int `json:"gid_retries"`
	// PKeyIndex is the partition of the port.
	PKeyIndex int `json:"pkey_index"`
	// MTU is the largest packet: 512, 1024, 2048 or 4096.
	MTU int `json:"mtu"`
	// TrafficClass and ServiceLevel mark packets, -1 for 0.
	TrafficClass int `json:"traffic_class"`
	ServiceLevel int `json:"service_level"`

	// QPPerEndpoint is how many queue pairs a connection has. Peers of upstream must have
	// as many.
	QPPerEndpoint int `json:"qp_per_endpoint"`
	// MaxWR is how many work requests a queue pair holds, MaxSGE of how many fragments (one is
	// used), MaxInline up to which size Writes are copied when they are posted.
	MaxWR     int `json:"max_wr"`
	MaxSGE    int `json:"max_sge"`
	MaxInline int `json:"max_inline"`
	// SignalEvery asks for one completion for so many work requests, 0 to choose.
	SignalEvery int `json:"signal_every"`
	// WindowBytes is the most bytes that a queue pair has in flight; one larger work request
	// goes alone.
	WindowBytes int64 `json:"window_bytes"`
	// CQPerDevice is how many completion queues of CQDepth entries a device begins with;
	// more are made when the connections need them.
	CQPerDevice int `json:"cq_per_device"`
	CQDepth     int `json:"cq_depth"`
	// Spin is how long Reap polls the devices before it sleeps until an interrupt; 0 sleeps at
	// once.
	Spin plugin.Duration `json:"spin"`

	// MaxEndpoints bounds the connections of a device, those it made and those it accepted
	// each. EndpointStore says which idle one gives way: "sieve" or "fifo".
	MaxEndpoints  int    `json:"max_endpoints"`
	EndpointStore string `json:"endpoint_store"`
	// IdleTimeout closes a connection that had no work for so long.
	IdleTimeout plugin.Duration `json:"idle_timeout"`

	// RelaxedOrdering lets the device reorder its memory accesses: 0 never, 1 and 2 where
	// it is supported.
	RelaxedOrdering int `json:"relaxed_ordering"`
	// MaxMRSize splits larger regions; the device may split further.
	MaxMRSize int64 `json:"max_mr_size"`
	// ParallelRegistration touches the pages of a large region from many threads first:
	// -1 for 4 GiB and more on 4 cores and more, 0 never, 1 always.
	ParallelRegistration int `json:"parallel_registration"`
	// GPUMemory is how memory of a GPU is registered: "dmabuf" (the region's descriptor is
	// a dma-buf), "peermem" (by address, with a kernel module), "auto" for dmabuf where
	// there is a descriptor.
	GPUMemory string `json:"gpu_memory"`

	// SliceBytes is the size of the work requests that operations are cut into.
	SliceBytes int `json:"slice_bytes"`
	// MaxInflightOps is how many operations a path accepts, until they are reaped, before
	// Submit returns a short count.
	MaxInflightOps int `json:"max_inflight_ops"`
	// OpTimeout bounds an operation without a deadline of its own.
	OpTimeout plugin.Duration `json:"op_timeout"`

	// AckTimeout is the device's wait for an acknowledgement, 4.096 us times two to this
	// power; RetryCount and RNRRetry how often it sends again; MinRNRTimer the code of the
	// pause that a peer asks for.
	AckTimeout  int `json:"ack_timeout"`
	RetryCount  int `json:"retry_count"`
	RNRRetry    int `json:"rnr_retry"`
	MinRNRTimer int `json:"min_rnr_timer"`
	// MaxReads is how many Reads are in flight on a queue pair.
	MaxReads int `json:"max_reads"`

	// HandshakeTimeout bounds setting up a connection, ReadyTimeout the second round with a
	// peer of upstream.
	HandshakeTimeout plugin.Duration `json:"handshake_timeout"`
	ReadyTimeout     plugin.Duration `json:"ready_timeout"`
	// FlushTimeout bounds how long a connection that ends waits for its work requests, and
	// ConfirmTimeout how long for the peer to say that it has ended too.
	FlushTimeout   plugin.Duration `json:"flush_timeout"`
	ConfirmTimeout plugin.Duration `json:"confirm_timeout"`
	// RailPause is the longest pause of a rail that keeps failing; it begins short.
	RailPause plugin.Duration `json:"rail_pause"`

	// Host is the address where peers set connections up, over TCP; empty for all. Port is
	// the first port to try, 0 for any; PortMax the last, 0 for Port alone.
	Host    string `json:"host"`
	Port    int    `json:"port"`
	PortMax int    `json:"port_max"`
	// Advertise lists the hosts, or host:port pairs, that peers dial. Empty means Host, or
	// the addresses of this machine where Host is empty.
	Advertise []string `json:"advertise"`
	// Upstream allows connections with nodes of kvcache-ai/Mooncake. ServerName stands for
	// this node in them, empty for the name of its segment.
	Upstream   bool   `json:"upstream"`
	ServerName string `json:"server_name"`
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
func Default() *Config {
	return &Config{
		IBPort: 1, GIDIndex: -1, GIDRetries: 2, MTU: 4096, TrafficClass: -1, ServiceLevel: -1,
		QPPerEndpoint: 2, MaxWR: 256, MaxSGE: 4, MaxInline: 64, WindowBytes: 16 << 20,
		CQPerDevice: 1, CQDepth: 4096, Spin: plugin.Duration(20 * time.Microsecond),
		MaxEndpoints: 65536, EndpointStore: StoreSIEVE, IdleTimeout: plugin.Duration(5 * time.Minute),
		RelaxedOrdering: 1, MaxMRSize: 1 << 40, ParallelRegistration: -1, GPUMemory: GPUAuto,
		SliceBytes: 1 << 20, MaxInflightOps: 4096, OpTimeout: plugin.Duration(30 * time.Second),
		AckTimeout: 14, RetryCount: 7, RNRRetry: 7, MinRNRTimer: 12, MaxReads: 16,
		HandshakeTimeout: plugin.Duration(5 * time.Second), ReadyTimeout: plugin.Duration(10 * time.Second),
		FlushTimeout: plugin.Duration(2 * time.Second), ConfirmTimeout: plugin.Duration(time.Second),
		RailPause: plugin.Duration(5 * time.Second), Upstream: true,
	}
}

// AckWait is AckTimeout as a time.
func (c *Config) AckWait() time.Duration {
	return time.Duration(4096) << c.AckTimeout // Nanoseconds.
}

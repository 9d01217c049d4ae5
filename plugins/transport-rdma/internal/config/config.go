// Package config holds the settings of the RDMA transport.
package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/blob"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
)

// Config holds the settings of the RDMA transport. Sizes are bytes. The limits of a
// device lower a setting silently. The tags hold what Validate allows.
type Config struct {
	// Library is the path of libibverbs, empty for the system's.
	Library string `json:"library"`
	// Devices are the names of the devices to use; empty for all.
	Devices []string `json:"devices"`
	// IBPort is the port of every device, counted from 1.
	IBPort int `json:"ib_port" range:"1 to 255"`
	// GIDIndex is the address of the port to use, -1 to choose.
	GIDIndex int `json:"gid_index" range:"-1 to 255"`
	// GIDRetries is how often a connection is tried again after the address of a port
	// turned out not to work and another was chosen.
	GIDRetries int `json:"gid_retries" range:"0 to 16"`
	// PKeyIndex is the partition of the port.
	PKeyIndex int `json:"pkey_index" range:"0 to 65535"`
	// MTU is the largest packet: 512, 1024, 2048 or 4096.
	MTU int `json:"mtu" oneof:"512, 1024, 2048, 4096"`
	// TrafficClass and ServiceLevel mark packets, -1 for 0.
	TrafficClass int `json:"traffic_class" range:"-1 to 255"`
	ServiceLevel int `json:"service_level" range:"-1 to 15"`

	// QPPerEndpoint is how many queue pairs a connection has. Peers of upstream must have
	// as many.
	QPPerEndpoint int `json:"qp_per_endpoint" range:"1 to 255"`
	// MaxWR is how many work requests a queue pair holds, MaxSGE of how many fragments (one is
	// used), MaxInline up to which size Writes are copied when they are posted.
	MaxWR     int `json:"max_wr" range:"1 to 32768"`
	MaxSGE    int `json:"max_sge" range:"1 to 255"`
	MaxInline int `json:"max_inline" range:"0 to 4096"`
	// SignalEvery asks for one completion for so many work requests, 0 to choose.
	SignalEvery int `json:"signal_every" range:"0 to 32768"`
	// WindowBytes is the most bytes that a queue pair has in flight; one larger work request
	// goes alone.
	WindowBytes int64 `json:"window_bytes" range:"4096 to 1099511627776"`
	// CQPerDevice is how many completion queues of CQDepth entries a device begins with;
	// more are made when the connections need them.
	CQPerDevice int `json:"cq_per_device" range:"1 to 255"`
	CQDepth     int `json:"cq_depth" range:"2 to 4194304"`
	// Spin is how long Reap polls the devices before it sleeps until an interrupt; 0 sleeps at
	// once.
	Spin plugin.Duration `json:"spin" range:"0s to 10ms"`

	// MaxEndpoints bounds the connections of a device, those it made and those it accepted
	// each. EndpointStore says which idle one gives way: "sieve" or "fifo".
	MaxEndpoints  int    `json:"max_endpoints" range:"1 to 65536"`
	EndpointStore string `json:"endpoint_store" oneof:"sieve, fifo"`
	// IdleTimeout closes a connection that had no work for so long.
	IdleTimeout plugin.Duration `json:"idle_timeout" range:"1ms to 24h0m0s"`

	// RelaxedOrdering lets the device reorder its memory accesses: 0 never, 1 and 2 where
	// it is supported.
	RelaxedOrdering int `json:"relaxed_ordering" range:"0 to 2"`
	// MaxMRSize splits larger regions; the device may split further.
	MaxMRSize int64 `json:"max_mr_size" range:"4096 to 1125899906842624"`
	// ParallelRegistration touches the pages of a large region from many threads first:
	// -1 for 4 GiB and more on 4 cores and more, 0 never, 1 always.
	ParallelRegistration int `json:"parallel_registration" range:"-1 to 1"`
	// GPUMemory is how memory of a GPU is registered: "dmabuf" (the region's descriptor is
	// a dma-buf), "peermem" (by address, with a kernel module), "auto" for dmabuf where
	// there is a descriptor.
	GPUMemory string `json:"gpu_memory" oneof:"auto, dmabuf, peermem"`

	// SliceBytes is the size of the work requests that operations are cut into.
	SliceBytes int `json:"slice_bytes" range:"4096 to 1073741824"`
	// MaxInflightOps is how many operations a path accepts, until they are reaped, before
	// Submit returns a short count.
	MaxInflightOps int `json:"max_inflight_ops" range:"1 to 1048576"`
	// OpTimeout bounds an operation without a deadline of its own.
	OpTimeout plugin.Duration `json:"op_timeout" range:"1ms to 24h0m0s"`

	// AckTimeout is the device's wait for an acknowledgement, 4.096 us times two to this
	// power; RetryCount and RNRRetry how often it sends again; MinRNRTimer the code of the
	// pause that a peer asks for.
	AckTimeout  int `json:"ack_timeout" range:"1 to 31"`
	RetryCount  int `json:"retry_count" range:"0 to 7"`
	RNRRetry    int `json:"rnr_retry" range:"0 to 7"`
	MinRNRTimer int `json:"min_rnr_timer" range:"0 to 31"`
	// MaxReads is how many Reads are in flight on a queue pair.
	MaxReads int `json:"max_reads" range:"1 to 128"`

	// HandshakeTimeout bounds setting up a connection, ReadyTimeout the second round with a
	// peer of upstream.
	HandshakeTimeout plugin.Duration `json:"handshake_timeout" range:"1ms to 24h0m0s"`
	ReadyTimeout     plugin.Duration `json:"ready_timeout" range:"1ms to 24h0m0s"`
	// FlushTimeout bounds how long a connection that ends waits for its work requests, and
	// ConfirmTimeout how long for the peer to say that it has ended too.
	FlushTimeout   plugin.Duration `json:"flush_timeout" range:"1ms to 24h0m0s"`
	ConfirmTimeout plugin.Duration `json:"confirm_timeout" range:"1ms to 24h0m0s"`
	// RailPause is the longest pause of a rail that keeps failing; it begins short.
	RailPause plugin.Duration `json:"rail_pause" range:"1ms to 24h0m0s"`

	// Addresses is where peers set connections up, over TCP.
	transportkit.Addresses
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

// Validate implements plugin.Config.
func (c *Config) Validate() error {
	v := reflect.ValueOf(c).Elem()
	for i := range v.NumField() {
		if err := check(v.Type().Field(i).Tag, v.Field(i)); err != nil {
			return err
		}
	}
	if c.CQDepth < c.MaxWR+1 {
		return fmt.Errorf("cq_depth is %d, must be more than max_wr (%d)", c.CQDepth, c.MaxWR)
	}
	return c.names()
}

// check compares a setting with its tags range and oneof.
func check(tag reflect.StructTag, v reflect.Value) error {
	name, text := tag.Get("json"), fmt.Sprint(v)
	if oneOf := tag.Get("oneof"); oneOf != "" && !slices.Contains(strings.Split(oneOf, ", "), text) {
		return fmt.Errorf("%s is %q, must be one of %s", name, text, oneOf)
	}
	low, top, bounded := strings.Cut(tag.Get("range"), " to ")
	if bounded && (v.Int() < number(low) || v.Int() > number(top)) {
		return fmt.Errorf("%s is %s, must be %s to %s", name, text, low, top)
	}
	return nil
}

// number reads an integer, or a duration in nanoseconds.
func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		var d time.Duration
		if d, err = time.ParseDuration(text); err != nil {
			panic(err)
		}
		n = int64(d)
	}
	return n
}

func (c *Config) names() error {
	if len(c.Devices) > blob.MaxDevices {
		return fmt.Errorf("devices has %d names, must be at most %d", len(c.Devices), blob.MaxDevices)
	}
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

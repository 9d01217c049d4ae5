package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/blob"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
)

// Validate implements plugin.Config.
func (c *Config) Validate() error {
	for _, check := range []func() error{c.numbers, c.durations, c.choices, c.names} {
		if err := check(); err != nil {
			return err
		}
	}
	if c.CQDepth < c.MaxWR+1 {
		return fmt.Errorf("cq_depth is %d, must be more than max_wr (%d)", c.CQDepth, c.MaxWR)
	}
	return nil
}

func (c *Config) numbers() error {
	for _, f := range []struct {
		name     string
		val      int64
		low, top int64
	}{
		{"ib_port", int64(c.IBPort), 1, 255},
		{"gid_index", int64(c.GIDIndex), -1, 255},
		{"gid_retries", int64(c.GIDRetries), 0, 16},
		{"pkey_index", int64(c.PKeyIndex), 0, 65535},
		{"traffic_class", int64(c.TrafficClass), -1, 255},
		{"service_level", int64(c.ServiceLevel), -1, 15},
		{"qp_per_endpoint", int64(c.QPPerEndpoint), 1, 255},
		{"max_wr", int64(c.MaxWR), 1, 1 << 15},
		{"max_sge", int64(c.MaxSGE), 1, 255},
		{"max_inline", int64(c.MaxInline), 0, 4096},
		{"signal_every", int64(c.SignalEvery), 0, 1 << 15},
		{"window_bytes", c.WindowBytes, 4 << 10, 1 << 40},
		{"cq_per_device", int64(c.CQPerDevice), 1, 255},
		{"cq_depth", int64(c.CQDepth), 2, 1 << 22},
		{"max_endpoints", int64(c.MaxEndpoints), 1, 65536},
		{"relaxed_ordering", int64(c.RelaxedOrdering), 0, 2},
		{"max_mr_size", c.MaxMRSize, 4 << 10, 1 << 50},
		{"parallel_registration", int64(c.ParallelRegistration), -1, 1},
		{"slice_bytes", int64(c.SliceBytes), 4 << 10, 1 << 30},
		{"max_inflight_ops", int64(c.MaxInflightOps), 1, 1 << 20},
		{"ack_timeout", int64(c.AckTimeout), 1, 31},
		{"retry_count", int64(c.RetryCount), 0, 7},
		{"rnr_retry", int64(c.RNRRetry), 0, 7},
		{"min_rnr_timer", int64(c.MinRNRTimer), 0, 31},
		{"max_reads", int64(c.MaxReads), 1, 128},
		{"port", int64(c.Port), 0, 65535},
		{"port_max", int64(c.PortMax), 0, 65535},
	} {
		if f.val < f.low || f.val > f.top {
			return fmt.Errorf("%s is %d, must be %d to %d", f.name, f.val, f.low, f.top)
		}
	}
	return nil
}

func (c *Config) durations() error {
	for _, d := range []struct {
		name string
		val  plugin.Duration
		low  time.Duration
	}{
		{"spin", c.Spin, 0}, {"idle_timeout", c.IdleTimeout, time.Millisecond}, {"op_timeout", c.OpTimeout, time.Millisecond},
		{"handshake_timeout", c.HandshakeTimeout, time.Millisecond}, {"ready_timeout", c.ReadyTimeout, time.Millisecond},
		{"flush_timeout", c.FlushTimeout, time.Millisecond}, {"confirm_timeout", c.ConfirmTimeout, time.Millisecond},
		{"rail_pause", c.RailPause, time.Millisecond},
	} {
		top := 24 * time.Hour
		if d.name == "spin" {
			top = 10 * time.Millisecond // A longer one only burns the processor.
		}
		if time.Duration(d.val) < d.low || time.Duration(d.val) > top {
			return fmt.Errorf("%s is %s, must be %s to %s", d.name, d.val, d.low, top)
		}
	}
	return nil
}

func (c *Config) choices() error {
	for _, f := range []struct {
		name, val string
		allowed   []string
	}{
		{"mtu", strconv.Itoa(c.MTU), []string{"512", "1024", "2048", "4096"}},
		{"endpoint_store", c.EndpointStore, []string{StoreSIEVE, StoreFIFO}},
		{"gpu_memory", c.GPUMemory, []string{GPUAuto, GPUDMABuf, GPUPeermem}},
	} {
		if !slices.Contains(f.allowed, f.val) {
			return fmt.Errorf("%s is %q, must be one of %s", f.name, f.val, strings.Join(f.allowed, ", "))
		}
	}
	return nil
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
	return c.Addresses().Validate()
}

// Addresses returns the settings of the bootstrap listener.
func (c *Config) Addresses() transportkit.Addresses {
	return transportkit.Addresses{Host: c.Host, Port: c.Port, PortMax: c.PortMax, Advertise: c.Advertise}
}
